"""What a server offers, told to every server it is mounted in: what is there, and what comes and goes later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import Resource

from coatcheck.server.mounting import Mount

if TYPE_CHECKING:
    from coatcheck.server.task_server import TaskServer

Kind = Literal["tool", "resource", "prompt"]
Register = Callable[["TaskServer", Mount, str], None]
"""Registers one thing with a host, as what it is called there."""


class Offering:
    def __init__(self, guest: TaskServer) -> None:
        self._guest = guest
        self._hosts: list[tuple[TaskServer, Mount]] = []
        self._offers: dict[tuple[Kind, str], Register] = {}

    def join(self, host: TaskServer, mount: Mount) -> None:
        """Offer all there is to one more host, and whatever comes."""
        self._hosts.append((host, mount))
        for (kind, name), register in self._offers.items():
            _offer(kind, name, register, host, mount)

    def put_tool(self, name: str, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> None:
        def register(host: TaskServer, mount: Mount, known_as: str) -> None:
            said = self._guest.tasks.said_of("tool", name)
            host.add_tool(mount.translator.of(function), known_as, *args, **said, **options)
            host.tasks.share_rates(known_as, mount, self._guest.tasks)

        self._put("tool", name, register)

    def put_template(self, uri: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
        def register(host: TaskServer, mount: Mount, known_as: str) -> None:
            host.resource(known_as, **self._guest.tasks.said_of("resource", uri), **options)(
                mount.translator.of(function)
            )

        self._put("resource", uri, register)

    def put_resource(self, resource: Resource) -> None:
        def register(host: TaskServer, mount: Mount, known_as: str) -> None:
            host.tasks.say("resource", known_as, **self._guest.tasks.said_of("resource", uri))
            host.add_resource(resource.model_copy(update={"uri": known_as}))

        uri = str(resource.uri)
        self._put("resource", uri, register)

    def put_prompt(self, prompt: Prompt) -> None:
        def register(host: TaskServer, mount: Mount, known_as: str) -> None:
            host.tasks.say("prompt", known_as, **self._guest.tasks.said_of("prompt", prompt.name), function=prompt.fn)
            host.add_prompt(prompt.model_copy(update={"name": known_as, "fn": mount.translator.of(prompt.fn)}))

        self._put("prompt", prompt.name, register)

    def take(self, kind: Literal["tool", "prompt"], name: str) -> None:
        """Offer something no longer."""
        if self._offers.pop((kind, name), None):
            for host, mount in self._hosts:
                known_as = mount.name(kind, name)
                if host.tasks.mounts.names.get((kind, known_as)) is mount:
                    remove = host.remove_tool if kind == "tool" else host.remove_prompt
                    remove(known_as)

    def has(self, kind: Kind, name: str) -> bool:
        return (kind, name) in self._offers

    def _put(self, kind: Kind, name: str, register: Register) -> None:
        """Offer something from now on, unless there is one of this name: the first stays."""
        if self._offers.setdefault((kind, name), register) is register:
            for host, mount in self._hosts:
                _offer(kind, name, register, host, mount)


def _offer(kind: Kind, name: str, register: Register, host: TaskServer, mount: Mount) -> None:
    known_as = mount.name(kind, name)
    if host.offers(kind, known_as):
        return  # the first of two with one name stays, and is what it was
    host.tasks.mounts.names[kind, known_as] = mount
    register(host, mount, known_as)
