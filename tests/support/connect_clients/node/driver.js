// Calls the client `kafka-connect-client` as it is told: one call in a line of JSON on stdin, its
// outcome in a line on stdout. Its one argument is the address of the gateway.
import readline from "node:readline";

import { KafkaConnectClient } from "kafka-connect-client";

const [host, port] = process.argv[2].split(":");
const client = new KafkaConnectClient({ host, port });

const calls = {
  cluster: () => client.getCluster(),
  names: () => client.getConnectors(),
  expanded: () => client.getConnectors({ expand: "status" }),
  plugins: () => client.getConnectorPlugins(),
  validate: ({ name, config }) => client.validateConnectorConfig(name, config),
  create: ({ name, config }) => client.createConnector(name, config),
  info: ({ name }) => client.connector(name).get(),
  config: ({ name }) => client.connector(name).getConfig(),
  status: ({ name }) => client.connector(name).getStatus(),
  tasks: ({ name }) => client.connector(name).getTasks(),
  update: ({ name, config }) => client.connector(name).updateConfig(config),
  delete: ({ name }) => client.connector(name).delete(),
  pause: ({ name }) => client.connector(name).pause(),
  resume: ({ name }) => client.connector(name).resume(),
  stop: ({ name }) => client.connector(name).stop(),
  restart: ({ name }) => client.connector(name).restart(),
  "task status": ({ name, task }) => client.connector(name).getTaskStatus(task),
  "restart task": ({ name, task }) => client.connector(name).restartTask(task),
  "reset topics": ({ name }) => client.connector(name).resetTopics(),
  offsets: ({ name }) => client.connector(name).getOffsets(),
  "alter offsets": ({ name, offsets }) => client.connector(name).alterOffsets(offsets),
  "reset offsets": ({ name }) => client.connector(name).resetOffsets(),
};

async function outcome(asked) {
  try {
    return { value: (await calls[asked.call](asked)).data };
  } catch (error) {
    if (error.response === undefined) throw error;
    const { status, data } = error.response;
    return { refused: { kind: error.name, status, message: data.message } };
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await outcome(JSON.parse(line))));
}
