"""What the protocol asks of tasks in both its generations, and what we ask beyond it, one sentence per entry.

S: the extension of 2026-07-28, row by row. T: sentences of its text that have no row. ER: where the published extension
differs from the early text. C: the official conformance scenarios. F and E: tasks of 2025-11-25 as two other servers
have them. G: what else the core protocol of that version says. R: where the two differ, as decided here. M: tasks of
your own code, as another server has them. X: what neither asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["MUST", "SHOULD", "MAY"]


@dataclass(frozen=True)
class Requirement:
    id: str
    level: Level
    says: str
    who: Literal["server", "client"] = "server"
    excluded: str = ""
    """Why no test of the server shows it."""

    @property
    def is_shown_by_tests(self) -> bool:
        return not self.excluded


def _must(row: str, says: str) -> Requirement:
    return Requirement(row, "MUST", says)


def _should(row: str, says: str) -> Requirement:
    return Requirement(row, "SHOULD", says)


def _may(row: str, says: str) -> Requirement:
    return Requirement(row, "MAY", says)


def _client(row: str, level: Level, says: str) -> Requirement:
    return Requirement(row, level, says, "client", "It is for clients to do; a server can neither do nor see it.")


def _elsewhere(row: str, level: Level, says: str, reason: str) -> Requirement:
    return Requirement(row, level, says, excluded=reason)


SPECIFICATION = (
    _must("S-001", "The extension is called io.modelcontextprotocol/tasks, and its settings are an empty object."),
    _must("S-002", "What a client can do is read from the _meta of each request."),
    _must("S-003", "A server declares the extension under capabilities.extensions of server/discover."),
    _must("S-004", "What a client declared in an earlier request does not count."),
    _must("S-005", "The server alone decides, call by call, whether there is a task; to declare is not to ask."),
    _must("S-006", "A client that did not declare the extension is never given a CreateTaskResult."),
    _client("S-007", "MUST", "A declaring client handles a result and a task alike."),
    _client("S-008", "MUST", "A task in answer to a request that cannot be one is an invalid response."),
    _must("S-009", "A tool that can only be a task is refused to others with -32021, naming the extension in data."),
    _must("S-010", "Only tools/call becomes a task."),
    _must("S-011", 'resultType is "task" on a CreateTaskResult and on nothing else.'),
    _must("S-012", "A task has taskId, status, createdAt, lastUpdatedAt and ttlMs, and may have the two others."),
    _must("S-013", "Times are ISO 8601."),
    _must("S-014", "A status is one of five."),
    _must("S-015", "inputRequests, result and error come with their status; working and cancelled have none."),
    _must("S-016", "There is no result on a failed task and no error on a completed one."),
    _must("S-017", "CreateTaskResult is flat: the task's fields stand beside resultType."),
    _must("S-018", "A CreateTaskResult is sent only when tasks/get would resolve."),
    _may("S-019", "A task starts as working, or in another status."),
    _should("S-020", "Questions before the task are settled by multi-round-trip on the call itself."),
    _must("S-021", "tasks/get takes a taskId."),
    _client("S-022", "SHOULD", "Poll no more often than pollIntervalMs."),
    _client("S-023", "MAY", "Read pollIntervalMs anew with each poll."),
    _may("S-024", "A server may limit those who poll faster than asked."),
    _client("S-025", "SHOULD", "Poll until the task is terminal or cancelled."),
    _client("S-026", "SHOULD", "Keep task ids where they survive a crash."),
    _must("S-027", "A working task is answered with the task."),
    _must("S-028", "A task that needs input is answered with all outstanding requests."),
    _must("S-029", "A completed task is answered with its result."),
    _must("S-030", "A failed task is answered with its error."),
    _must("S-031", "A cancelled task is answered with the task."),
    _must("S-032", 'The resultType of tasks/get is "complete".'),
    _client("S-033", "MAY", "Give a task up after createdAt + ttlMs."),
    _may("S-034", "A server may delete a task some time after its ttl."),
    _may("S-035", "ttlMs may change."),
    _must("S-036", "tasks/update takes a taskId and inputResponses."),
    _must("S-037", "A key of inputRequests is used once in the life of a task."),
    _must("S-038", "A request that is not answered stands in every poll."),
    _client("S-039", "SHOULD", "Do not put the same question to a person twice."),
    _should("S-040", "An answer to a key that was never issued is ignored."),
    _should("S-041", "An answer to a key that has been answered is ignored."),
    _should("S-042", "An answer to a key that was superseded is ignored."),
    _may("S-043", "Some of the answers may come first; the task still needs input then."),
    _must("S-044", 'tasks/update is acknowledged with an empty result of resultType "complete".'),
    _should("S-045", "tasks/update of an unknown task is -32602."),
    _client("S-046", "MUST", "Treat questions of a task like questions asked directly."),
    _must("S-047", 'tasks/cancel is acknowledged with an empty result of resultType "complete".'),
    _may("S-048", "Cancellation is cooperative: work that was done first keeps its outcome."),
    _must("S-049", "notifications/cancelled does not cancel a task."),
    _client("S-050", "MAY", "Forget a task once its cancellation is sent."),
    _should("S-051", "tasks/cancel of an unknown task is -32602."),
    _must("S-052", "notifications/tasks carries the whole task."),
    _must("S-053", "subscriptions/listen takes notifications.taskIds."),
    _must("S-054", "The acknowledgement names the tasks that were accepted; unknown and foreign ones are left out."),
    _must("S-055", "taskIds without the capability are refused with -32021."),
    _must("S-056", "A notification says what tasks/get would say at that moment."),
    _must("S-057", "notifications/progress and notifications/message are not sent on a stream for tasks."),
    _may("S-058", "Who does not listen can do with polling alone."),
    _must("S-059", "Over HTTP, Mcp-Name repeats the taskId on get, update and cancel."),
    _must("S-060", "Over HTTP, Mcp-Method repeats the method."),
    _must("S-061", "tasks/get of an unknown task is -32602."),
    _must("S-062", "What goes wrong inside is -32603."),
    _must("S-063", "get, update and cancel are refused with -32021 to clients that did not declare the extension."),
    _may("S-064", "An expired task is not found."),
    _must("S-065", "failed is for JSON-RPC errors only, always with the error, and with a statusMessage."),
    _must("S-066", "A result with isError is a completed task."),
    _must("S-067", "No other use is made of what is reserved: tasks/, notifications/tasks/, the label."),
    _must("S-068", "Task ids cannot be guessed."),
    _must("S-069", "Who asks is checked on every request."),
    _must("S-070", "There is no tasks/list."),
    _client("S-071", "MAY", "Poll inside a call and return the final result only."),
    _must("S-072", "On 2026-07-28 nothing of 2025-11-25 counts: not its capability, its methods or its task param."),
    _must("S-073", "A stream begins with its acknowledgement, tags every message, and is ended as agreed."),
)

TEXT = (
    _must("T-01", "A task carries all its outstanding requests and nothing that was answered."),
    _should("T-02", "Error messages say what is wrong."),
    _must("T-03", "A task's result is what the call itself would have returned."),
    _must("T-04", "A task's error is the error the call itself would have returned."),
    _may("T-05", "A server may answer a call directly although the tool can be a task."),
    _may("T-06", "statusMessage may tell how far the work is."),
    _may("T-07", "An id is enough to see a task where callers have no identity."),
    _must("T-08", "ttlMs is there even if it is null."),
)

ERRATA = (
    _must("ER-1", "The code for a missing capability is -32021, not -32003."),
    _must("ER-2", 'get, update and cancel say "complete" whatever the status.'),
    _must("ER-3", "The owner is checked on get, update, cancel and listen, not only when a task is made."),
    _must("ER-4", "Answers are validated against the schema of their question."),
    _must("ER-5", "Notifications carry the detailed task."),
    _must("ER-6", "Milliseconds are integers."),
    _must("ER-7", "A header that contradicts the body is -32020, an unknown version -32022; both with HTTP 400."),
)

RESOLUTIONS = (
    _must("R-01", "isError: completed; in 2025-11-25 failed, with the tool's text as statusMessage."),
    _must("R-02", "A JSON-RPC error that was raised: failed, with its code, message and data."),
    _must("R-03", "Another exception does in a task what it does in a plain call, its details masked."),
    _must("R-04", "Cancelling a finished task is acknowledged; in 2025-11-25 it is -32602."),
    _must("R-05", "A task is cancelled before its cancellation is answered."),
    _must("R-06", "tasks/list is there in 2025-11-25 only."),
    _must("R-07", "tasks/result is there in 2025-11-25 only."),
    _must("R-08", "One policy per tool: forbidden, optional or required, and promote_after."),
    _must(
        "R-09", "A required tool is refused to clients without tasks, with -32021 or -32601, unless it may fall back."
    ),
    _must("R-10", "The owner is the principal: issuer, client and subject; else the session; else whoever has the id."),
    _must("R-11", "An id has at least 128 random bits."),
    _must("R-12", "A lifetime starts at creation, and the wire tells when it was made longer."),
    _must("R-13", "An hour unless asked otherwise, a day at most; unlimited only if the operator allows it."),
    _must("R-14", "Two seconds between polls unless the tool says otherwise."),
    _must("R-15", "expired is not a status: such a task is not found."),
    _must("R-16", "Each generation has its own names on the wire."),
    _must("R-17", "related-task in the _meta of a result in 2025-11-25 only."),
    _must(
        "R-18", "notifications/tasks only for ids that were accepted; notifications/tasks/status to whoever made it."
    ),
    _must("R-19", "Progress is told in statusMessage and in _meta, in 2025-11-25 also in notifications/progress."),
    _must("R-20", "Input is asked through inputRequests, or on the stream of tasks/result; the question is the same."),
    _may("R-21", "Input from the host program goes through a local API, and not over the wire."),
    _must("R-22", "Prompts and resources are tasks for your own code only, never on the wire."),
    _elsewhere("R-23", "MAY", "Questions of an upstream are matched to calls.", "It is about proxies."),
    _elsewhere("R-24", "MAY", "An upstream that is lost fails what depends on it.", "It is about proxies."),
    _must("R-25", "Work survives the connection it was asked on, and the session."),
    _must("R-26", "Every transition is pushed, and what the work says, but not too often."),
    _must("R-27", "Unknown, foreign and expired tasks are refused in the same words."),
    _must("R-28", "A bad cursor is -32602, and so is another's."),
    _must("R-29", "A task starts as working, and says if it waits for a worker."),
    _must("R-30", "A local call is synchronous unless a task is asked for."),
)

CONFORMANCE = (
    _must("C-001", "The capability stands under extensions, not at the top."),
    _must("C-002", "-32021 for get, update and cancel without the capability."),
    _must("C-003", "Opting in is per request."),
    _must("C-004", "A create result is flat, without a nested task."),
    _must("C-005", 'A direct answer is "complete" and has no taskId.'),
    _must("C-006", "A completed task has its result inlined."),
    _must("C-007", "isError is completed."),
    _must("C-008", "A protocol error is failed, with error and without result."),
    _must("C-009", "A cancellation's acknowledgement is empty."),
    _must("C-010", "Cancelling a finished task is acknowledged again."),
    _must("C-011", "Slow work settles in cancelled."),
    _must("C-012", "inputRequests is present in input_required."),
    _must("C-013", "Partial answers keep the remainder."),
    _must("C-014", "There is no requestState on tasks."),
    _must("C-015", "No ttl, no pollInterval."),
    _must("C-016", "Integer milliseconds."),
    _must("C-017", "A task is kept for its ttl."),
    _must("C-018", "No related-task in an inlined result."),
    _must("C-019", "tasks/result and tasks/list are -32601."),
    _must("C-020", "A legacy task param is tolerated."),
    _must("C-021", "A poll right after creation resolves."),
    _must("C-022", "Wrong or missing Mcp-Name or Mcp-Method is -32020."),
    _must("C-023", "Multi-round-trip, then a task, on one call."),
    _must("C-024", "Push, which the suite skips."),
)

RECEIVER = (
    _must("F-001", "A tool declares whether it may be a task: optional, required or forbidden."),
    _must("F-002", "A tool that declares nothing is forbidden to be one."),
    _must("F-003", "The list of tools shows execution.taskSupport on those that may be tasks, and on no others."),
    _must("F-004", "A tool that may not be a task is -32601 to who asks for one."),
    _must("F-005", "A tool that must be a task is -32601 to who asks for none."),
    _must("F-006", "A tool that may be a task is one to who asks for it, and answers others directly."),
    _must("F-007", "Tasks are there as soon as one tool may be one."),
    _must("F-008", "They are declared in the handshake: cancel, list, requests.tools.call."),
    _must("F-009", "list is declared only where callers can be told apart."),
    _must("F-010", "A client may ask for a ttl and is told the one that was given."),
    _must("F-011", "Without a wish it is an hour."),
    _must("F-012", "A wish for more than a day is cut to a day."),
    _must("F-013", "A ttl of zero or less is refused."),
    _must("F-014", "Polls are asked for every two seconds."),
    _must("F-016", "A session may have 16 unfinished tasks."),
    _must("F-025", "A creation is answered at once with a task that can be looked at."),
    _must("F-026", "tasks/get has no payload."),
    _must("F-027", "tasks/result waits for the end."),
    _must("F-028", "tasks/result is the result or the error of the call itself."),
    _must("F-029", "A result says in its _meta which task it is of."),
    _must("F-030", "A result may be collected any number of times, until the ttl is over."),
    _must("F-031", "tasks/list has the caller's tasks, page by page."),
    _must("F-032", "tasks/cancel returns the cancelled task."),
    _must("F-033", "The cancellation is written before it is answered."),
    _must("F-034", "The work of a cancelled task is stopped."),
    _must("F-035", "Also if it runs in another process."),
    _must("F-037", "What has ended cannot be cancelled: -32602."),
    _must("F-039", "A task goes between working and input_required, and ends once."),
    _must("F-040", "What cancelled work still says is dropped."),
    _must("F-041", "isError is failed."),
    _must("F-042", "A protocol error is failed, with its code and message again."),
    _must("F-043", "A task that asks is input_required."),
    _must("F-044", "notifications/tasks/status carries the whole task."),
    _must("F-045", "It comes at creation, on the stream of the answer."),
    _must("F-046", "It comes at the end."),
    _must("F-047", "Who does not hear of it can do with looking."),
    _must("F-048", "What is kept in memory is gone after a restart."),
    _must("F-050", "What is kept in a file is there after a restart."),
    _must("F-055", "An end that comes just when somebody begins to wait is not missed."),
    _must("F-056", "The task of another session is refused like an unknown one, and not listed."),
    _must("F-057", "What is refused is refused before there is a task."),
    _must("F-058", "Ids are random."),
    _must("F-059", "How often a tool may be called counts for tasks, too."),
    _must("F-060", "Where tasks were never started, asking for one is an internal error."),
    _must("F-061", "Every refusal has its own code on the wire."),
    _must("F-062", "Rules say who may call, read and use what, and what lists show."),
    _must("F-068", "Any process on the same store sees the same tasks."),
    _must("F-074", "All methods can be driven with raw requests."),
)

RELAY = (
    _must("E-001", "There are tasks/get, list, result and cancel, and notifications/tasks/status."),
    _must("E-002", "A prompt is no task on the wire."),
    _must("E-003", "Nor is a resource."),
    _must("E-004", "There is no tasks/sendInput on the wire."),
    _must("E-005", "task=True is optional."),
    _must("E-006", "A policy may say more than the mode."),
    _must("E-007", "There are three modes."),
    _must("E-008", "A server may have a mode for all its tools."),
    _must("E-009", "A tool's own mode comes before the server's, both ways."),
    _must("E-010", "Your own code calls at once, whatever the tool's mode, unless it asks for a task."),
    _must("E-011", "Who asks for a task has a handle of it at once."),
    _must("E-012", "A handle fetches the task as it is now."),
    _must("E-013", "A handle waits as long as it is told to, and cancels nothing by waiting no longer."),
    _must("E-014", "A handle has the result of the call itself, with its meta."),
    _must("E-015", "Tasks are listed by owner, page by page; a cursor is good for its owner."),
    _must("E-016", "A task is cancelled by its handle."),
    _must("E-017", "A question is answered by its handle, with an action and content."),
    _must("E-018", "Handles of resources, of what templates make, and of prompts are like those of tools."),
    _must("E-019", "A call says how long its task lives."),
    _must("E-020", "A tool may start a child task with a ttl of its own."),
    _must("E-021", "A tool reports progress through the context it has anyway."),
    _must("E-022", "Progress is told in the task, in its message and in notifications."),
    _must("E-023", "The poll interval is the one that was configured."),
    _must("E-024", "A tool that asks a person waits, and goes on where it was."),
    _must("E-025", "So does one that asks a model."),
    _must("E-026", "Who waits with tasks/result is asked, and gets the result on the same request."),
    _must("E-027", "A tool can tell accepted, declined and cancelled apart."),
    _must("E-029", "Success is completed."),
    _must("E-030", "isError is failed, its payload intact in tasks/result."),
    _must("E-031", "An error that was raised is failed, and raised again by tasks/result."),
    _must("E-032", "A cancelled task is cancelled, and says so in tasks/result."),
    _must("E-033", "The message of a failure is the tool's text, else the error's."),
    _must("E-034", "A result names its task."),
    _must("E-035", "So does an error."),
    _must("E-036", "Whose a task is counts for all methods."),
    _must("E-037", "All who may not see a task are refused alike."),
    _must("E-038", "Who is known is known by client, issuer and subject, as far as a token names them."),
    _must("E-039", "Two users of one application do not see each other's tasks."),
    _must("E-042", "A ttl is enforced."),
    _must("E-043", "The capability is list, cancel and requests.tools.call."),
    _must("E-044", "An id has at least 128 random bits."),
    _must("E-045", "A task may ask several things at once."),
    _must("E-047", "Of a crash no details are told."),
    _must("E-048", "Who has too many tasks is told so, with a code of its own."),
    _must("E-049", "A cursor is good for who got it."),
    _must("E-051", "Who called, and the state of the lifespan, are there in the background."),
    _must("E-053", "A client may keep a question as a task of its own."),
    _must("E-055", "What a restart has cut off has failed, and says why."),
    _must("E-057", "A progress token is good until the end, and its values rise."),
    _must("E-058", "Both generations are served at once, older clients as ever."),
)

LOCAL = (
    _must("M-001", "call_tool, read_resource and render_prompt take a task_meta."),
    _elsewhere("M-002", "MAY", "The run methods of components take one, too.", "They are the SDK's."),
    _must("M-003", "A TaskMeta is a value that never changes."),
    _must("M-004", "Without one the result is returned."),
    _must("M-005", "With one a task is."),
    _must("M-006", "Type checkers know which of the two it is."),
    _must("M-007", "Nothing hidden makes a call a task, or a child of one: what is not passed on does not count."),
    _must("M-008", "A component's key is filled in by the server that is called."),
    _must("M-009", "A key that is given is kept."),
    _must("M-010", "What is mounted has a key of its own at its host."),
    _must("M-011", "Middleware comes before there is a task."),
    _must("M-012", "Of a server that is mounted, too."),
    _must("M-013", "Middleware is run once, never where the task runs."),
    _must("M-014", "Work in the background is asked for by an argument."),
    _must("M-015", "Your own code may start it."),
    _must("M-016", "Who called is known in the background."),
    _elsewhere("M-017", "MAY", "Five seconds between polls, a minute to live.", "R-13 and R-14 have it otherwise."),
    _elsewhere("M-018", "MAY", "Tasks are an extension object of their own package.", "They are built in here."),
)

CORE = (
    _must("G-001", "Clients that declared it are given questions as tasks."),
    _must("G-002", "Who did not declare tasks ignores the wish for one."),
    _must("G-003", "taskSupport is shown only where tasks are declared."),
    _may("G-004", "A creation may have something to tell the model meanwhile."),
    _must("G-005", "A task begins as working."),
    _should("G-006", "Who wants to be asked calls tasks/result; what it cannot be asked is an error."),
    _must("G-007", "All that belongs to a task says so in its _meta, but not get, list, cancel and status."),
    _must("G-008", "A progress token is good for the whole task."),
    _must("G-009", "After the end there is no progress, and no question."),
    _must("G-010", "What can be looked at is listed."),
    _must("G-011", "A bad cursor is -32602."),
    _must("G-012", "A cancellation returns the task."),
    _must("G-014", "Tasks are bound to who is authenticated."),
    _must("G-015", "Where nobody is known there is no list."),
    _should("G-016", "How many tasks a caller has, and how long they live, is limited."),
    _should("G-017", "What is done to tasks is logged."),
    _may("G-018", "A ttl may be null."),
    _must("G-019", "The ttl that is told is the real one."),
)

BEYOND = (
    _must("X-01", "Both generations share tasks: made over one, seen and answered over the other, in its words."),
    _must("X-08", "A repeat under the same key by the same owner is the same task; of another call, it is refused."),
    _must("X-11", "Quick work is answered directly; slow work is a task to who can, and a ticket to others."),
    _must("X-12", "Clients without tasks have tools in their place, and others do not see them."),
    _must("X-13", "Who waits for slow work is given signs of life."),
    _must("X-29", "Children are cancelled with their parent, which tells how far they are and puts their questions."),
)

CATALOGUE = (*SPECIFICATION, *TEXT, *ERRATA, *RESOLUTIONS, *CONFORMANCE, *RECEIVER, *RELAY, *LOCAL, *CORE, *BEYOND)
