"""Tasks for servers built on the official SDK: `TaskServer` for a new one, `Tasks` for an existing `MCPServer`."""

from coatcheck.context import TaskContext
from coatcheck.server.http.app import http_app
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.task_server import TaskServer
from coatcheck.server.tasks import Tasks
from coatcheck.sync_context import SyncContext

__all__ = ["SyncContext", "TaskContext", "TaskPolicy", "TaskServer", "Tasks", "http_app"]
