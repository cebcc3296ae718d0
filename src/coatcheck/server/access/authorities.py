"""Who may use which tool, resource or prompt: asked before anything is made of a request, and of every list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.shared.uri_template import UriTemplate

from coatcheck.errors import Forbidden
from coatcheck.server.access.principal import ROLES, Principal, current_principal
from coatcheck.server.access.rules import Arguments, Authority, Rule, rule_of

Kind = Literal["tool", "resource", "prompt", "server"]
"""What may be used. A server, as a whole, is one behind a proxy."""
Validate = Callable[[dict[str, Any]], dict[str, Any]]
_template = lru_cache(maxsize=1024)(UriTemplate.parse)


class Authorities:
    """The rules of a server's components: templates are resources, known by their template."""

    def __init__(self, default: Authority | None = None, *, roles: str = ROLES) -> None:
        """`default` is for what has no rule of its own, `roles` the claim in which tokens list them."""
        self._default, self._roles = None if default is None else rule_of(default), roles
        self._rules: dict[tuple[Kind, str], Rule] = {}
        self._validators: dict[tuple[Kind, str], Callable[[], Validate]] = {}
        self.open: set[str] = set()
        """Tools that are for everybody, whatever the default: each looks after itself."""

    def __bool__(self) -> bool:
        return bool(self._rules) or self._default is not None

    def set(self, kind: Kind, name: str, authority: Authority) -> None:
        """Give a component its rule."""
        self._rules[kind, name] = rule_of(authority)

    def know(self, kind: Kind, name: str, validator: Callable[[], Validate]) -> None:
        """Remember what makes the arguments a component gets of those that are sent, should a rule look at them."""
        self._validators.setdefault((kind, name), cache(validator))  # of two with one name, the first stays

    def remove(self, kind: Kind, name: str) -> None:
        self._rules.pop((kind, name), None)
        self._validators.pop((kind, name), None)

    def own_rule(self, kind: Kind, name: str) -> Rule | None:
        return self._rules.get((kind, name))

    def rule(self, kind: Kind, name: str) -> Rule | None:
        default = None if kind == "tool" and name in self.open else self._default
        return self.own_rule(kind, name) or default

    def caller(self) -> Principal:
        """Return who sent the request that is being served."""
        return current_principal(self._roles)

    async def check_tool(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Let a call pass, or not.

        Raises:
            Forbidden: The caller may not make this call.
        """
        if rule := self.rule("tool", name):
            await self.check(rule, "tool", name, lambda: self._validated("tool", name, arguments))

    async def check_prompt(self, name: str, arguments: Mapping[str, Any] | None) -> None:
        """The same of a prompt. `arguments` None: it is only asked about."""
        given = arguments
        if rule := self.rule("prompt", name):
            await self.check(
                rule, "prompt", name, lambda: None if given is None else self._validated("prompt", name, given)
            )

    async def check_resource(self, server: MCPServer[Any], uri: str) -> None:
        """The same of a resource: its rule is that of its own URI, or of the template that makes it."""
        if not self._may_concern(uri):
            return
        name, parameters = await resolve(server, uri)
        if rule := self.rule("resource", name):
            await self.check(rule, "resource", uri, lambda: self._found_in(uri, name, parameters))

    async def check_template(self, server: MCPServer[Any], name: str) -> None:
        """The same of a template, or of a URI, that is only asked about."""
        if self.own_rule("resource", name) is None and self._may_concern(name):
            name, _ = await resolve(server, name)
        if rule := self.rule("resource", name):
            await self.check(rule, "resource", name, lambda: None)

    def _may_concern(self, uri: str) -> bool:
        """Whether a rule may be about a URI; to find out more takes a look at all resources."""
        if self._default is not None or ("resource", uri) in self._rules:
            return True
        return any(kind == "resource" and _template(name).match(uri) is not None for kind, name in self._rules)

    async def shown(self, kind: Kind, name: str) -> bool:
        """Whether the caller is to know of a component: there is something it may do with it."""
        rule = self.rule(kind, name)
        return rule is None or await rule.allows(self.caller(), None)

    async def check(self, rule: Rule, kind: Kind, name: str, arguments: Callable[[], Arguments | None]) -> None:
        """Let what a rule is about pass, or not. `arguments`: what it is called with; None: it is only asked about.

        Raises:
            Forbidden: The rule does not allow it.
        """
        who = self.caller()
        is_allowed = await rule.allows(who, None)
        if is_allowed and rule.depends_on_arguments and (given := arguments()) is not None:
            is_allowed = await rule.allows(who, given)
        if not is_allowed:
            raise Forbidden(kind, name)

    def _validated(self, kind: Kind, name: str, arguments: Mapping[str, Any]) -> Arguments | None:
        """Return the arguments as the component would get them; None: it would not, as the SDK is about to say."""
        validator = self._validators.get((kind, name))
        if validator is None:
            return arguments
        try:
            return validator()(dict(arguments))
        except Exception:  # the author's own validators may raise anything
            return None

    def _found_in(self, uri: str, name: str, parameters: Mapping[str, Any]) -> Arguments | None:
        given = self._validated("resource", name, parameters)
        return None if given is None else {**given, "uri": uri}


async def resolve(server: MCPServer[Any], uri: str) -> tuple[str, dict[str, Any]]:
    """Return what a URI is registered under, a template or itself, and what the template finds in it."""
    if any(str(resource.uri) == uri for resource in await server.list_resources()):
        return uri, {}
    for template in await server.list_resource_templates():
        if (found := _template(template.uri_template).match(uri)) is not None:
            return template.uri_template, dict(found)
    return uri, {}


async def only_shown(
    authorities: Authorities, kind: Kind, items: Sequence[dict[str, Any]], key: str
) -> list[dict[str, Any]]:
    """Return what of a list the caller is to know of."""
    return [item for item in items if await authorities.shown(kind, str(item.get(key)))]
