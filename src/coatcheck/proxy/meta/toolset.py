"""All meta tools, in the order in which they are shown."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

from coatcheck.proxy.meta.counter import Counter, Tool
from coatcheck.proxy.meta.tools.contents import ContentTools
from coatcheck.proxy.meta.tools.execute import Execute
from coatcheck.proxy.meta.tools.notices import NoticeTools
from coatcheck.proxy.meta.tools.questions import QuestionTools
from coatcheck.proxy.meta.tools.servers import ServerTools
from coatcheck.proxy.meta.tools.tasks import TaskTools
from coatcheck.proxy.meta.tools.waiting import Waiting


def add_meta_tools(server: MCPServer[Any], counter: Counter) -> None:
    for tool in _acting(counter):
        counter.add(server, tool, is_read_only=False)
    for tool in _looking(counter):
        counter.add(server, tool, is_read_only=True)


def _acting(counter: Counter) -> list[Tool]:
    questions, servers = QuestionTools(counter), ServerTools(counter)
    contents, notices = ContentTools(counter), NoticeTools(counter)
    return [
        Execute(counter).execute_tool,
        TaskTools(counter).cancel_task,
        questions.respond_to_elicitation,
        questions.cancel_elicitation_request,
        questions.respond_to_sampling,
        questions.cancel_sampling_request,
        servers.add_server,
        servers.remove_server,
        servers.reconnect_server,
        contents.subscribe_resource,
        contents.unsubscribe_resource,
        notices.set_timer,
        notices.delete_timer,
    ]


def _looking(counter: Counter) -> list[Tool]:
    tasks, questions, servers = TaskTools(counter), QuestionTools(counter), ServerTools(counter)
    contents, notices = ContentTools(counter), NoticeTools(counter)
    return [
        tasks.list_tasks,
        tasks.get_task,
        tasks.get_task_result,
        Waiting(counter).await_activity,
        questions.get_elicitations,
        questions.get_sampling_requests,
        servers.list_servers,
        servers.get_server_status,
        contents.list_tools,
        contents.list_resources,
        contents.list_resource_templates,
        contents.read_resource,
        contents.list_prompts,
        contents.get_prompt,
        notices.get_notifications,
        notices.get_logs,
        notices.list_timers,
        notices.get_timer,
    ]
