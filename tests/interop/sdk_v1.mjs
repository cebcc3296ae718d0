// The tasks of the TypeScript SDK 1.x, against a server: its URL, or the command of one that speaks stdio.
// Prints a line of JSON for each scenario: what the client saw, or what went wrong.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  McpError,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const RELATED = "io.modelcontextprotocol/related-task";
const TTL = 60_000;
const PATIENCE = 20_000;
const target = process.argv.slice(2);

const related = (meta) => meta?.[RELATED]?.taskId;
const collapsed = (words) => words.filter((word, index) => word !== words[index - 1]);

class Peer {
  questions = [];
  requests = [];
  ttls = [];
  statuses = [];
  waiting = new Set();
  reply = (message) => ({ action: "accept", content: { name: `asked ${message}` } });

  constructor(options) {
    this.client = new Client({ name: "sdk-v1", version: "1" }, options);
    this.client.setRequestHandler(ElicitRequestSchema, (request, extra) =>
      this.answer(request, extra, request.params.message, this.reply(request.params.message)),
    );
    this.client.setRequestHandler(CreateMessageRequestSchema, (request, extra) =>
      this.answer(request, extra, request.params.messages[0].content.text, {
        role: "assistant",
        model: "none",
        content: { type: "text", text: "Something" },
      }),
    );
    this.client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => {
      this.statuses.push(params);
      for (const wake of this.waiting) wake();
    });
  }

  async connect() {
    const [first, ...rest] = target;
    const transport = first.startsWith("http")
      ? new StreamableHTTPClientTransport(new URL(first))
      : new StdioClientTransport({ command: first, args: rest });
    // The client tells its transport, and nobody else.
    const told = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => {
      this.version = version;
      told?.(version);
    };
    await this.client.connect(transport);
    const receive = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (message.method !== undefined && message.id !== undefined) this.requests.push(message.method);
      receive(message, extra);
    };
  }

  async answer({ method, params }, extra, message, answer) {
    this.questions.push({ method, message, task: related(params._meta) });
    if (params.task === undefined) return answer;
    this.ttls.push(params.task.ttl);
    const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 100 });
    void extra.taskStore.storeTaskResult(task.taskId, "completed", answer);
    return { task };
  }

  // The statuses a task was said to have, without repetitions, once the last of them was said.
  async until(taskId, status) {
    const said = () => this.statuses.filter((task) => task.taskId === taskId).map((task) => task.status);
    while (!said().includes(status)) {
      await new Promise((resolve) => this.waiting.add(resolve));
      this.waiting.clear();
    }
    return collapsed(said());
  }
}

const peer = new Peer({ capabilities: { elicitation: {}, sampling: {} } });
await peer.connect();
const { client } = peer;
const { tasks } = client.experimental;

async function refusal(call) {
  try {
    await call;
  } catch ({ code, message, data = null }) {
    return { code, message: message.replace(`MCP error ${code}: `, ""), data };
  }
  return null;
}

async function create(name, args = {}, options = {}) {
  const request = { method: "tools/call", params: { name, arguments: args } };
  return client.request(request, CreateTaskResultSchema, { task: { ttl: TTL }, ...options });
}

async function handIn(name, args) {
  return (await create(name, args)).task.taskId;
}

function seen(taskId, { content, structuredContent = null, isError = false, _meta }) {
  return { text: content[0].text, structured: structuredContent, isError, ofTask: related(_meta) === taskId };
}

async function result(taskId) {
  return seen(taskId, await tasks.getTaskResult(taskId, CallToolResultSchema));
}

// What the SDK makes of a call on its own: it polls, and asks for the result where the task is over or wants an answer.
async function stream(name, args = {}, options = {}) {
  const found = { statuses: [] };
  for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options)) {
    if (message.type === "taskCreated") found.taskId = message.task.taskId;
    if (message.type === "taskStatus") found.statuses.push(message.task.status);
    if (message.type === "result") found.result = seen(found.taskId, message.result);
    if (message.type === "error") found.error = message.error;
  }
  return found;
}

async function answered(name) {
  const asked = peer.questions.length;
  const { taskId, statuses, result } = await stream(name);
  const questions = peer.questions.slice(asked).map((question) => ({ ...question, task: question.task === taskId }));
  return { asking: statuses.at(-1), questions, result };
}

async function replying(reply, act) {
  const usual = peer.reply;
  peer.reply = reply;
  try {
    return await act();
  } finally {
    peer.reply = usual;
  }
}

const scenarios = {
  async initialized() {
    return { version: peer.version, tasks: client.getServerCapabilities().tasks };
  },
  async offered() {
    const { tools } = await client.listTools();
    return Object.fromEntries(
      tools.filter((tool) => tool.execution).map((tool) => [tool.name, tool.execution.taskSupport]),
    );
  },
  async created() {
    const { task, _meta } = await create("add", { a: 2, b: 3 });
    return { ...task, meta: _meta ?? null };
  },
  async completed() {
    const { taskId, statuses, result: first } = await stream("add", { a: 2, b: 3 });
    return { last: statuses.at(-1), result: first, again: await result(taskId) };
  },
  async awaited() {
    const taskId = await handIn("slow", { seconds: 0.5 });
    return { result: await result(taskId), status: (await tasks.getTask(taskId)).status };
  },
  elicited: () => answered("ask"),
  elicited_twice: () => answered("ask_twice"),
  sampled: () => answered("sample"),
  declined: () =>
    replying(
      () => ({ action: "decline" }),
      async () => ({ text: (await result(await handIn("ask"))).text }),
    ),
  async unanswered() {
    const nobody = () => {
      throw new McpError(-32055, "Nobody is here");
    };
    return replying(nobody, async () => {
      const task = await refusal(result(await handIn("ask")));
      const plain = await refusal(client.callTool({ name: "ask", arguments: {} }));
      // The SDK says the code twice, in the error and before its message.
      const words = ({ code, message }) => [code, message.replace(`MCP error ${code}: `, "")];
      return { task: words(task), plain: words(plain) };
    });
  },
  async failed() {
    const { taskId, error } = await stream("fails");
    const { status, statusMessage } = await tasks.getTask(taskId);
    const told = error.message.endsWith(`Task ${taskId} failed`);
    return { status, message: statusMessage, told, result: await result(taskId) };
  },
  async broken() {
    const { taskId, statuses } = await stream("protocol_error");
    const errors = [await refusal(result(taskId)), await refusal(result(taskId))];
    for (const { data } of errors) if (data._meta?.[RELATED]) data._meta = related(data._meta) === taskId;
    return { status: statuses.at(-1), error: errors[0], again: errors[1] };
  },
  async listed() {
    const handedIn = [];
    for (const a of [0, 1, 2]) handedIn.push(await handIn("add", { a, b: 0 }));
    const page = await tasks.listTasks();
    const newest = page.tasks.slice(0, 3).map((task) => handedIn.indexOf(task.taskId));
    return { newest, hasMore: page.nextCursor !== undefined };
  },
  async cancelled() {
    const taskId = await handIn("slow", { seconds: 600 });
    return {
      answer: (await tasks.cancelTask(taskId)).status,
      later: (await tasks.getTask(taskId)).status,
      result: await refusal(result(taskId)),
      again: await refusal(tasks.cancelTask(taskId)),
    };
  },
  async unknown() {
    return {
      get: await refusal(tasks.getTask("nobody's")),
      result: await refusal(result("nobody's")),
      cancel: await refusal(tasks.cancelTask("nobody's")),
    };
  },
  async refused() {
    // `callTool` refuses it by itself.
    const request = { method: "tools/call", params: { name: "only_as_task", arguments: { word: "no" } } };
    return {
      required: await refusal(client.request(request, CallToolResultSchema)),
      forbidden: await refusal(create("greet", { name: "Ada" })),
    };
  },
  async required() {
    return { result: (await stream("only_as_task", { word: "yes" })).result };
  },
  async notified() {
    const taskId = await handIn("ask");
    const before = await peer.until(taskId, "input_required");
    await result(taskId);
    return { before, after: await peer.until(taskId, "completed") };
  },
  async progressed() {
    const progress = [];
    const onprogress = (params) => void progress.push(params);
    const { taskId } = (await create("slow", { seconds: 0.6 }, { onprogress })).task;
    await peer.until(taskId, "completed");
    return {
      progress: progress.map((params) => params.progress),
      ofTask: progress.length > 0 && progress.every((params) => related(params._meta) === taskId),
    };
  },
  async held() {
    const asked = peer.questions.length;
    const added = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
    const answer = await client.callTool({ name: "ask", arguments: {} });
    return {
      added: added.structuredContent,
      ofTask: related(added._meta) !== undefined,
      answered: answer.content[0].text,
      questions: peer.questions.length - asked,
    };
  },
};

async function report(scenario, act) {
  let timer;
  const tooLate = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("It took too long")), PATIENCE);
  });
  let found;
  try {
    found = await Promise.race([act(), tooLate]);
  } catch (error) {
    found = { wrong: String(error) };
  }
  clearTimeout(timer);
  console.log(JSON.stringify({ scenario, ...found }));
}

// A client whose answers are tasks themselves, kept where the SDK keeps them.
async function receive(receiver, name) {
  const asked = receiver.requests.length;
  const request = { method: "tools/call", params: { name, arguments: {} } };
  const { task } = await receiver.client.request(request, CreateTaskResultSchema, { task: { ttl: TTL } });
  const { content } = await receiver.client.experimental.tasks.getTaskResult(task.taskId, CallToolResultSchema);
  return {
    text: content[0].text,
    requests: collapsed(receiver.requests.slice(asked)),
    ttl: Number.isInteger(receiver.ttls.at(-1)) ? "int" : typeof receiver.ttls.at(-1),
    ofTask: receiver.questions.at(-1).task === task.taskId,
  };
}

for (const [name, act] of Object.entries(scenarios)) await report(name, act);
await client.close();

const receiver = new Peer({
  capabilities: {
    elicitation: {},
    sampling: {},
    tasks: { requests: { elicitation: { create: {} }, sampling: { createMessage: {} } } },
  },
  taskStore: new InMemoryTaskStore(),
});
await receiver.connect();
await report("received_elicitation", () => receive(receiver, "ask"));
await report("received_sampling", () => receive(receiver, "sample"));
await receiver.client.close();
process.exit(); // or the store's timers would keep it
