// The page of a cluster: what `penstock top`, `penstock workers` and `penstock events` show, by the same routes.

const EVERY_MS = 2000;
const MOST_EVENTS = 30;
const MOST_ROWS = 500; // connectors that are drawn; the filter finds the others

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// Counts of each task by connector, task and epoch: another epoch counts from zero.
export function samplesOf(connectors, now) {
  const samples = new Map();
  for (const connector of connectors) {
    for (const task of connector.tasks) {
      const key = JSON.stringify([connector.name, task.id, task.epoch]);
      samples.set(key, { now, read: task.rows_read ?? 0, written: task.rows_written ?? 0 });
    }
  }
  return samples;
}

// A row of the table for each connector, with rows a second between two samples.
export function rowsOf(connectors, before, after) {
  return connectors.map((connector) => {
    let read = 0, written = 0, left = 0, isLeftKnown = connector.tasks.length > 0, bad = 0, restarts = 0;
    for (const task of connector.tasks) {
      const key = JSON.stringify([connector.name, task.id, task.epoch]);
      const now = after.get(key), then = before.get(key) ?? now;
      const seconds = Math.max((now.now - then.now) / 1000, 0.001);
      read += Math.max(0, now.read - then.read) / seconds;
      written += Math.max(0, now.written - then.written) / seconds;
      isLeftKnown &&= task.rows_left !== null && task.rows_left !== undefined;
      left += task.rows_left ?? 0;
      bad += task.rows_failed ?? 0;
      restarts += task.restarts;
    }
    const running = connector.tasks.filter((task) => task.state === "RUNNING").length;
    const failed = connector.tasks.find((task) => task.trace);
    return {
      name: connector.name, kind: connector.kind, state: connector.state,
      tasks: `${running}/${connector.tasks.length}`,
      read, written, left: isLeftKnown ? left : null, bad, restarts,
      why: failed?.trace ?? connector.why ?? busiest(connector.tasks) ?? "",
    };
  });
}

// What the running task does that waits least for its source.
export function busiest(tasks) {
  let most = -1, text = null;
  for (const task of tasks) {
    if (task.state !== "RUNNING" || !task.time_shares || !task.busy_with) continue;
    const others = Object.entries(task.time_shares).filter(([name]) => name !== "source");
    const share = Math.max(0, ...others.map(([, value]) => value));
    if (share > most) [most, text] = [share, task.busy_with];
  }
  return text;
}

export function matches(row, filter) {
  const text = `${row.name} ${row.kind} ${row.state} ${row.why}`.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// All texts are set as texts: a name or a message of a connector is never read as HTML.
function cell(value, className = "") {
  const made = document.createElement("td");
  made.className = typeof value === "number" ? "number" : className;
  made.append(value instanceof Node ? value : typeof value === "number" ? number.format(value) : value ?? "–");
  return made;
}

function fill(id, rows) {
  document.querySelector(`#${id} tbody`).replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells);
    return row;
  }));
}

async function fetchJson(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path} answers ${answer.status} ${answer.statusText}`);
  const text = await answer.text();
  return path.includes("events") ? text.split("\n").filter(Boolean).map(JSON.parse) : JSON.parse(text);
}

const page = { before: new Map(), rows: [], connectors: [], chosen: "" };

function drawConnectors() {
  const filter = document.getElementById("filter").value.trim();
  const found = page.rows.filter((row) => matches(row, filter));
  fill("connectors", found.slice(0, MOST_ROWS).map((row) => {
    const name = document.createElement("button");
    name.textContent = row.name;
    name.addEventListener("click", () => {
      page.chosen = page.chosen === row.name ? "" : row.name;
      drawTasks();
    });
    return [
      cell(name), cell(row.kind), cell(row.state, `state ${row.state}`), cell(row.tasks), cell(row.read), cell(row.written),
      cell(row.left), cell(row.bad), cell(row.restarts), cell(row.why),
    ];
  }));
  document.getElementById("none").hidden = page.rows.length > 0;
  const failed = page.rows.filter((row) => row.state === "FAILED").length;
  const running = page.rows.filter((row) => row.state === "RUNNING").length;
  const hidden = found.length > MOST_ROWS ? `, ${MOST_ROWS} of ${found.length} shown` : "";
  document.getElementById("summary").textContent =
    `${page.rows.length} connectors, ${running} running, ${failed} failed${hidden}`;
}

function drawTasks() {
  const connector = page.connectors.find((one) => one.name === page.chosen);
  const details = document.getElementById("details");
  details.hidden = !connector;
  if (!connector) return;
  details.querySelector("h2").textContent = connector.name;
  fill("tasks", connector.tasks.map((task) => [
    cell(String(task.id)), cell(task.state, `state ${task.state}`), cell(task.worker_id), cell(task.rows_read), cell(task.rows_written),
    cell(task.rows_failed), cell(task.rows_left), cell(task.restarts), cell(task.trace ?? task.busy_with ?? ""),
  ]));
}

function drawCluster(cluster, events) {
  fill("workers", cluster.workers.map((worker) => {
    const state = worker.draining ? "draining" : worker.connected ? "connected" : "lost";
    return [cell(worker.name || worker.id), cell(worker.address), cell(worker.tasks), cell(state, `state ${state}`)];
  }));
  fill("events", events.reverse().map((event) => [
    cell(event.time), cell(event.kind), cell(event.connector), cell(event.task), cell(event.worker), cell(event.message),
  ]));
}

async function refresh() {
  const failure = document.getElementById("failure");
  try {
    const [status, cluster, events] = await Promise.all([
      fetchJson("v1/status"), fetchJson("v1/cluster"), fetchJson(`v1/events?tail=${MOST_EVENTS}`),
    ]);
    const after = samplesOf(status.connectors, performance.now());
    page.connectors = status.connectors;
    page.rows = rowsOf(status.connectors, page.before, after);
    page.before = after;
    drawConnectors();
    drawTasks();
    drawCluster(cluster, events);
    failure.hidden = true;
  } catch (error) {
    failure.textContent = `The gateway cannot be asked: ${error.message}. What stands below is older.`;
    failure.hidden = false;
  }
}

async function follow() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

if (typeof document !== "undefined") {
  document.getElementById("filter").addEventListener("input", drawConnectors);
  follow();
}
