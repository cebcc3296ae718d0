// The tasks package of the TypeScript SDK 2.x on its 2025-11-25 side: its requester, and its receiver. They are tried
// against a server: its URL, or the command of one that speaks stdio.
// Prints a line of JSON for each scenario: what they saw, or what went wrong.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { bindTaskReceiver } from "@modelcontextprotocol/ext-tasks/receiver";

const PATIENCE = 20_000;
const target = process.argv.slice(2);
const anything = { "~standard": { version: 1, vendor: "coatcheck", validate: (value) => ({ value }) } };
const PREFER = { task: { preference: "prefer", retentionMs: 60_000 } };

const collapsed = (words) => words.filter((word, index) => word !== words[index - 1]);

function newClient(capabilities) {
  // It speaks 2025-11-25 unless it is told to find out what else there is.
  return new Client({ name: "ext-tasks", version: "1" }, { capabilities });
}

async function connect(client, requests) {
  const [first, ...rest] = target;
  const transport = first.startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(first))
    : new StdioClientTransport({ command: first, args: rest });
  await client.connect(transport);
  const receive = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method !== undefined && message.id !== undefined) requests.push(message.method);
    receive(message, extra);
  };
}

function answer({ message, messages }) {
  return messages === undefined
    ? { action: "accept", content: { name: `asked ${message}` } }
    : { role: "assistant", model: "none", content: { type: "text", text: "Something" } };
}

const questions = [];
const client = newClient({ elicitation: {}, sampling: {} });
await connect(client, []);

function open(over) {
  return createTaskSessionFromClient(over, {
    endpointId: "the server",
    async onInputRequest({ kind, params }, { scope, delivery, taskId }) {
      questions.push({ kind, scope, delivery, taskId });
      return answer(params);
    },
  });
}

let session = open(client);

// The package polls until a task is over, and only then wants its result. A task that asks is not over, and 2025-11-25
// says its questions come where the result is waited for: so somebody else must wait for it.
function collect(over, taskId) {
  return over.request({ method: "tasks/result", params: { taskId } }, anything);
}

function told(execution, { outcome: { status, result, error } }, statuses) {
  return {
    kind: execution.kind,
    status,
    statuses,
    text: result?.content[0].text,
    isError: result?.isError,
    message: error?.message,
    code: error?.code,
  };
}

async function call(name, args, options, { over = client, within = session } = {}) {
  const statuses = [];
  let collecting;
  const execution = await within.callTool(name, args, options);
  const settled = await execution.settle({
    onEvent({ type, task }) {
      if (type !== "task") return;
      statuses.push(task.status);
      if (task.status === "input_required") collecting ??= collect(over, task.taskId);
    },
  });
  await collecting;
  return { ...told(execution, settled, collapsed(statuses)), taskId: execution.handle?.taskId };
}

async function plainly(name, args, options) {
  const { taskId, ...seen } = await call(name, args, options);
  return seen;
}

async function answered(name) {
  const asked = questions.length;
  const { taskId, ...seen } = await call(name, {}, PREFER);
  const put = questions.slice(asked).map((question) => ({ ...question, taskId: question.taskId === taskId }));
  return { ...seen, questions: put };
}

const scenarios = {
  async negotiated() {
    return { version: client.getNegotiatedProtocolVersion(), ...session.capabilities };
  },
  undeclared: () => plainly("greet", { name: "Ada" }, PREFER),
  preferred: () => plainly("add", { a: 2, b: 3 }, PREFER),
  allowed: () => plainly("add", { a: 2, b: 3 }),
  required: () => plainly("only_as_task", { word: "yes" }),
  elicited: () => answered("ask"),
  elicited_twice: () => answered("ask_twice"),
  sampled: () => answered("sample"),
  failed: () => plainly("fails", {}, PREFER),
  broken: () => plainly("protocol_error", {}, PREFER),
  async cancelled() {
    const execution = await session.callTool("slow", { seconds: 600 }, PREFER);
    const { taskId } = execution.handle;
    await execution.cancel();
    const { outcome } = await execution.settle();
    const later = await session.task(taskId).snapshot();
    const result = await session.task(taskId).result();
    return { status: outcome.status, later: later.status, result: result.status };
  },
  async listed() {
    const handedIn = [];
    for (const a of [0, 1, 2]) handedIn.push((await call("add", { a, b: 0 }, PREFER)).taskId);
    const { tasks } = await session.listTasks();
    return { newest: tasks.slice(0, 3).map((task) => handedIn.indexOf(task.taskId)) };
  },
  async resumed() {
    const execution = await session.callTool("slow", { seconds: 0.5 }, PREFER);
    let reference;
    await execution.handoff((given) => void (reference = JSON.parse(JSON.stringify(given))));
    await execution.result(); // or closing the session would cancel the task, though it was handed over
    await session.close();
    session = open(client);
    const resumed = await session.resumeTask(reference);
    const { kind, status, text } = told(resumed, await resumed.settle());
    return { kind, status, text };
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

for (const [name, act] of Object.entries(scenarios)) await report(name, act);
await session.close();
await client.close();

// A client whose answers are tasks themselves.
const requests = [];
const augmentations = [];
const owner = newClient({ elicitation: {}, sampling: {} });
const respond = async ({ params }) => {
  augmentations.push(params.task);
  return answer(params);
};
const receiver = bindTaskReceiver(owner, {
  methods: { "elicitation/create": true, "sampling/createMessage": true },
  elicitation: respond,
  sampling: respond,
  pollIntervalMs: 100,
});
owner.registerCapabilities({ tasks: receiver.capabilities });
await connect(owner, requests);
const within = open(owner);

async function receive(name) {
  const asked = requests.length;
  const { status, text } = await call(name, {}, PREFER, { over: owner, within });
  const ttl = augmentations.at(-1)?.ttl;
  return { status, text, requests: collapsed(requests.slice(asked)), ttl: Number.isInteger(ttl) ? "int" : typeof ttl };
}

await report("received_elicitation", () => receive("ask"));
await report("received_sampling", () => receive("sample"));
await within.close();
receiver.close();
await owner.close();
process.exit();
