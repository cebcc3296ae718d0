"""Tasks for servers built on the official SDK: `TaskServer` for a new one, `Tasks` for an existing `MCPServer`."""

from coatcheck.context import TaskContext
from coatcheck.server.access.principal import Principal
from coatcheck.server.access.rates import Rate
from coatcheck.server.access.rules import Rule, role, scope, signed_in, when, who
from coatcheck.server.access.settings import Access
from coatcheck.server.access.tokens.verifier import JWTVerifier
from coatcheck.server.http.app import http_app
from coatcheck.server.local.handle import LocalTask, TaskPage
from coatcheck.server.local.meta import TaskMeta
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.task_server import TaskServer
from coatcheck.server.tasks import Tasks
from coatcheck.sync_context import SyncContext

__all__ = [
    "Access",
    "JWTVerifier",
    "LocalTask",
    "Principal",
    "Rate",
    "Rule",
    "SyncContext",
    "TaskContext",
    "TaskMeta",
    "TaskPage",
    "TaskPolicy",
    "TaskServer",
    "Tasks",
    "http_app",
    "role",
    "scope",
    "signed_in",
    "when",
    "who",
]
