"""The rows of the inventory that tests alone do not answer, and the tools that there have to be."""

from __future__ import annotations

DECIDED = {
    "P-045": "0034",
    "P-055": "0034",
    "P-056": "0034",
    "P-057": "0034",
    "P-061": "0034",
    "P-065": "0034",
    "P-067": "0034",
    "P-086": "0034",
    "P-087": "0034",
    "P-088": "0034",
}
"""Rows that a decision answers otherwise than they were written: the record says why."""

TOOLS = (
    "execute_tool",
    "list_tasks",
    "get_task",
    "get_task_result",
    "cancel_task",
    "await_activity",
    "get_elicitations",
    "respond_to_elicitation",
    "cancel_elicitation_request",
    "get_sampling_requests",
    "respond_to_sampling",
    "cancel_sampling_request",
    "add_server",
    "remove_server",
    "reconnect_server",
    "list_servers",
    "get_server_status",
    "list_tools",
    "list_resources",
    "list_resource_templates",
    "read_resource",
    "subscribe_resource",
    "unsubscribe_resource",
    "list_prompts",
    "get_prompt",
    "get_notifications",
    "get_logs",
    "set_timer",
    "list_timers",
    "get_timer",
    "delete_timer",
)
