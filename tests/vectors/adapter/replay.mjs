// The adapter, written from docs/adapter.md alone; long lists are read from it. It replays the vectors and prints those that differ.
import { readFileSync } from "node:fs";
const SPECIFICATION = readFileSync(`${import.meta.dirname}/../../../docs/adapter.md`, "utf8");
const [, RANGES] = SPECIFICATION.match(/^Blanks are .*\n((?:.*[0-9A-F].*\n)+)/m);
const BLANKS = new RegExp(`[${RANGES.replace(/[^0-9A-F]*([0-9A-F]{4,6})(–?)/g, "\\u{$1}$2").replaceAll("–", "-").trim().replace(/[^}]*$/, "")}]+`, "gu");
const STOP = SPECIFICATION.match(/^The stop words are: `([^`]+)`/m)[1].split(/\s/);
const [NEUTRAL_ROWS] = SPECIFICATION.split("| neutral phrase |")[1].split("\n\n");
const NEUTRAL = Object.fromEntries([...NEUTRAL_ROWS.matchAll(/`(\w+)` \| `([^`]+)`/g)].map((row) => row.slice(1)));
// At place 0 the prefix of the names in the contract, and then each status at the place of its number.
const TOOL = ["TOOL_STATUS_", "server_disabled", "disabled_by_config", "server_quarantined", "disabled_by_user", "pending_approval", "disabled_unknown", "callable"];
const LOAD = ["LOAD_STATUS_", "available", "transient", "denied", "permanent"];
const ENABLE = ["ENABLE_STATUS_", "unknown_server", "already_enabled", "missing_credentials", "enabled", "declined", "authorization_required", "cancelled", "connect_failed"];
const UNEXPLAINED = "The policy service gives no reason. Tell the user. Next step: {check_logs}.";
const PLAIN = /^[A-Za-z0-9_.-]{1,128}$/;
const own = (object, key) => (object && Object.hasOwn(object, key) ? object[key] : undefined);
const unique = (values) => [...new Set(values)];
// Texts
const cut = (text, most = 128) => [...text.toWellFormed()].slice(0, most).join("");
const quoted = (name) => JSON.stringify(cut(name)).replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
const oneLine = (text) => cut(text.toWellFormed().replace(BLANKS, " ").replace(/^ | $/g, ""), 1000).replace(/ +$/, "");
const undotted = (text) => text.replace(/\.+$/, "");
const compared = (one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other));
const PARTS = /[A-Z]?[a-z]{1,8}|[A-Z]{1,3}|[0-9]{1,3}|[^ A-Za-z0-9]/gu;
const shortened = (text) => (text.match(PARTS)?.length > 19 ? text.replace(new RegExp(`^((?: *(?:${PARTS.source})){18}).*`, "u"), "$1…") : text);
// JSON: an object is a Map, and a number a function that returns its text.
function read(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+/g).filter((token) => !/[,:]/.test(token[0]));
  const value = (token) => {
    const members = [];
    if (token === "[" || token === "{") {
      for (let next = tokens.shift(); next !== "]" && next !== "}"; next = tokens.shift()) members.push(value(next));
      return token === "[" ? members : new Map(members.flatMap((key, place) => (place % 2 ? [] : [[key, members[place + 1]]])));
    }
    return /[-0-9]/.test(token[0]) ? () => token : token[0] === '"' ? JSON.parse(token).toWellFormed() : JSON.parse(token);
  };
  return value(tokens.shift());
}
function write(value) {
  if (typeof value === "string") return JSON.stringify(value.toWellFormed());
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (value === null || typeof value !== "object") return String(typeof value === "function" ? value() : value);
  const members = value instanceof Map ? [...value] : Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${members.map(([key, each]) => `${write(key)}:${write(each)}`).join(",")}}`;
}
const result = (object, text, isError) => write({ content: [{ type: "text", text: text ?? write(object) }], structuredContent: object, isError });
// Statuses and placeholders
const known = (status, names) => names.find((name, at) => at && (status === at || status === names[0] + name.toUpperCase()));
function fill(template, phrases, names, texts, declared) {
  const inPhrase = (phrase) => phrase.replace(/\{(server|tool)\}/g,
    (_, name) => (PLAIN.test(own(names, name) ?? "") && names[name][0] !== "-" ? names[name] : name.toUpperCase()));
  const action = (name) => inPhrase(own(phrases, name) || oneLine(own(declared, name) ?? "")) || own(NEUTRAL, name) || name.replaceAll("_", " ");
  return template.replace(/\{([a-z_]+)\}/g, (_, name) => (own(names, name) === undefined ? own(texts, name) ?? action(name) : quoted(names[name])));
}
const author = ({ verdict, words }, key, names) =>
  (known(verdict?.status, names) && known(verdict?.status, names) === known(words?.status, names) ? words[key] : "");

function judge({ servers, response, visible, refusals, separator = ":" }) {
  const words = new Map((response.words ?? []).map((each) => [`${known(each.status, TOOL)} ${each.rule ?? ""}`, each]));
  const tools = servers.flatMap(({ name: server, tools: names }, at) => names.map((tool, place) => {
    const { verdict } = response.servers[at].results[place];
    const status = known(verdict?.status, TOOL);
    const { withholdText: withheld, undetermined, rule } = status ? verdict : { withholdText: true, undetermined: true };
    const name = server + separator + tool;
    return { server, tool, name, status: status ?? "disabled_unknown", withheld, undetermined, rule: !undetermined && words.has(`${status} ${rule}`) ? rule : "" };
  }));
  return { words, refusals, tools: tools.filter(({ server }) => !visible || visible.includes(server)) };
}
function remediation({ words, refusals }, tools, phrases) {
  const refusal = (tool) => (tool.status === "disabled_unknown" && !tool.undetermined && oneLine(own(refusals, tool.name) ?? "")) || "";
  const words_of = ({ status, rule }) => words.get(`${status} ${rule}`) ?? words.get(`${status} `);
  const text = (tool) => refusal(tool) || fill(words_of(tool)?.remediation || UNEXPLAINED, phrases, {}, {}, words_of(tool)?.phrases);
  const shown = (name) => (/^[!-_a-~]{1,128}$/.test(name) ? `\`${name}\`` : quoted(name));
  const listed = (names) => names.slice(0, 10).map(shown).join(", ") + (names.length > 10 ? ` and ${names.length - 10} more` : "");
  return Object.fromEntries(TOOL.slice(1).map((status) => {
    const those = tools.filter((tool) => tool.status === status), texts = unique(those.map(text));
    const named = (each) => listed(those.filter((tool) => text(tool) === each).map(({ name }) => name));
    return [status, texts.length > 1 ? texts.map((each) => `For ${named(each)}: ${each}`).join(" ") : texts[0]];
  }).filter(([, said]) => said));
}
const HUMP = /(?<=[a-z0-9])[A-Z]|(?<=[A-Z])[A-Z](?=[a-z])/g;
const nameWords = (text) => (text.replace(HUMP, " $&").match(/[A-Za-z0-9]{1,64}/g) ?? []).map((word) => word.toLowerCase());
function foundByName(query, tools) {
  const wanted = unique(nameWords(query).filter((word) => word.length > 1 && !STOP.includes(word))).slice(0, 256);
  const ranked = tools.map((tool) => [tool, nameWords(`${tool.tool} ${tool.server}`)])
    .map(([tool, parts]) => [wanted.filter((word) => parts.some((part) => part.startsWith(word))).length, tool]);
  return ranked.filter(([count]) => count).sort((one, other) => other[0] - one[0] || compared(one[1].name, other[1].name)).map(([, tool]) => tool);
}
function discovery({ judgement: name, query, found = [], found_locked = [], texts, phrases, limit = 15, include_disabled, not_loaded = [] }, judgements) {
  const judgement = judge(judgements[name]);
  const among = (names, tools) => unique(names).flatMap((each) => tools.filter((tool) => tool.name === each));
  const json = (text) => read(text ?? "null") ?? undefined;
  const entry = ({ name: tool, server, withheld }, rest) => ({ name: tool, server, ...rest(withheld ? {} : own(texts, tool) ?? {}) });
  const hits = among(found, judgement.tools.filter(({ status }) => status === "callable")).slice(0, limit);
  const callable = ({ description, inputSchema, annotations }) => ({ description, inputSchema: json(inputSchema), annotations: json(annotations) });
  const answer = { tools: hits.map((tool) => entry(tool, callable)), total: hits.length };
  if (!include_disabled && hits.length) return result(answer, undefined, false);
  const locked = judgement.tools.filter(({ status }) => status !== "callable");
  const searched = locked.filter((tool) => !tool.withheld && own(texts, tool.name));
  const [byText, byName] = [among(found_locked, searched), foundByName(query, locked.filter((tool) => !searched.includes(tool)))];
  const matches = locked.flatMap((_, place) => [byText[place], byName[place]]).filter(Boolean);
  const shown = matches.filter(({ withheld, tool }) => !withheld || PLAIN.test(tool)).slice(0, Math.min(limit, 10));
  if (include_disabled && matches.length) {
    answer.disabled = shown.map((tool) => entry(tool, ({ description }) => ({ description, status: tool.status })));
    answer.remediation = remediation(judgement, shown, phrases);
    answer.disabled_total = matches.length > shown.length ? matches.length : undefined;
  }
  const exist = `${matches.length} matching ${matches.length === 1 ? "tool exists" : "tools exist"} but cannot be called; repeat with`;
  const notice = include_disabled || !matches.length ? [] : [`${exist} \`include_disabled: true\` to see why and who can change that.`];
  answer.notice = [...notice, ...(hits.length ? [] : not_loaded)].join(" ") || undefined;
  return result(answer, undefined, false);
}
function counts({ judgement }, judgements) {
  const { tools } = judge(judgements[judgement]);
  const order = [7, 2, 4, 5, 1, 3, 6].map((number) => TOOL[number]);
  const count = (server, status) => tools.filter((tool) => tool.server === server && tool.status === status).length;
  const every = unique(tools.map(({ server }) => server)).map((server) => [server,
    new Map(order.map((status) => [status, count(server, status)]).filter(([status, number]) => status === "callable" || number))]);
  return write(new Map(every.filter(([, found]) => found.size > 1)));
}
const DECLARED = /^(?=.{1,128}$)(?!(agent|annotations|approval|callability|caller|columns?|enable|load|server|tool)\.)[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/;
const KINDS = [[/^server\.(enabled|quarantined)$/, "the server's state"], [/^agent\.name$/, "the agent's name"], [DECLARED, "the fact `FACT`"],
  [/^tool\.config_denied$/, "the operator's config"], [/^approval\./, "the tool's approval"], [/^annotations\./, "the tool's annotations"],
  [/^(server|tool|agent)\.label\./, "a label set by the operator"], [/^/, "another fact that the policy reads"]];
const kindsOf = (facts = []) => unique(facts.map((fact) => KINDS.find(([pattern]) => pattern.test(fact))[1].replace("FACT", fact))).join(", ");
const OWNERS = { LIFTED_BY_USER: "the user", LIFTED_BY_OPERATOR: "the operator" };
const ENDS = { PATH_END_CALLABLE: "", PATH_END_POLICY_CHANGE: "Then only a change of the policy lifts it." };
function remainingLocks({ steps = [], end = "PATH_END_CALLABLE", findOut } = {}, phrases, names) {
  const said = steps.slice(0, 5).flatMap(({ changes }) => {
    const groups = changes.reduce((all, each) => (all.at(-1)?.[0].changedBy === each.changedBy ? all.at(-1).push(each) : all.push([each]), all), []);
    const action = (group) => (name) => fill(`{${name}}`, phrases, names, {}, Object.fromEntries(group.map((each) => [each.action, each.phrase ?? ""])));
    return groups.map((group) => (OWNERS[group[0].changedBy]
      ? `Then ${OWNERS[group[0].changedBy]} must ${unique(group.map((each) => each.action)).map(action(group)).join(" and ")}.`
      : "Then the proxy itself still refuses it."));
  });
  const more = steps.length - 5;
  const ended = end === "PATH_END_FIND_OUT" ? `Then it depends on ${kindsOf(findOut)}, which could not be read.` : ENDS[end] ?? "Then another lock may remain.";
  const owners = end === "PATH_END_CALLABLE" ? unique(steps.flatMap(({ changes }) => changes.map((each) => OWNERS[each.changedBy]))) : [undefined];
  return [[...said, more > 0 && `Then ${more} more ${more === 1 ? "lock remains" : "locks remain"}.`, ended], owners];
}
function rejection({ response, server, tool, phrases, discovery_tool = "retrieve_tools", refusal = "", facts_from_config }) {
  const [status, template] = [known(response.verdict?.status, TOOL) ?? "disabled_unknown", author(response, "rejection", TOOL)];
  const unknown = status === "disabled_unknown";
  let reason = [fill(template || UNEXPLAINED, phrases, { server, tool }, {}, template && response.words.phrases)];
  const stays = facts_from_config && response.verdict?.unread?.some((fact) => DECLARED.test(fact));
  let retry = unknown && !stays && response.verdict?.retry !== "RETRY_NEVER" ? "later" : "never";
  if (unknown) {
    const kinds = kindsOf(response.verdict?.unread);
    reason.unshift("The reason could not be determined; held back rather than guessed.", kinds && `Could not be read: ${kinds}.`);
    if (known(response.verdict?.status, TOOL) && !response.verdict.undetermined && oneLine(refusal)) [reason, retry] = [[oneLine(refusal)], "never"];
  }
  const [lifted_by, who] = { disabled_by_config: ["operator", "Only the operator can"], disabled_unknown: ["undetermined", "Who can"] }[status]
    ?? ["user", "The user can"];
  const again = retry === "later" ? "A later retry may succeed." : unknown ? "Retrying does not help." : "Do not retry until then.";
  const [then, owners] = remainingLocks(response.remaining, phrases, { server, tool });
  const all = unique([`the ${lifted_by}`, ...owners]);
  const lift = unknown || all.length === 1 ? `${who} lift this${unknown ? " is unknown" : ""}.` : !all.includes(undefined) && "Both the user and the operator must act.";
  const text = [`Not called: ${status}${unknown ? "" : ", by policy"}.`, ...reason, ...then, lift, again,
    `See \`${discovery_tool}\` with \`include_disabled: true\`.`].filter(Boolean).join(" ");
  return status === "callable" ? null : result({ status, server: cut(server), tool: cut(tool), lifted_by, retry }, text, true);
}
function commonLength(one, other) {
  const cell = (row, to, at, letter) => (letter === other[at - 1] ? row[at - 1] + 1 : Math.max(row[at], to[at - 1]));
  return one.reduce((row, letter) => row.reduce((to, _, at) => [...to, at && cell(row, to, at, letter)], []), [0, ...other.map(() => 0)]).at(-1);
}
function unknown_tool({ tool, names, discovery_tool = "retrieve_tools" }) {
  const ranked = unique(names).sort(compared).map((name) => [name, commonLength([...cut(tool, 256)], [...name]), [...cut(tool, 256), ...name].length])
    .filter(([, common, length]) => 10 * common >= 3 * length).sort((one, other) => other[1] / other[2] - one[1] / one[2]).slice(0, 3);
  const similar = ranked.length ? ` Similar names: ${ranked.map(([name]) => quoted(name)).join(", ")}.` : "";
  return result(undefined, `Not called: there is no tool ${quoted(tool)}.${similar} Find tools with \`${discovery_tool}\`.`, true);
}
const unavailable = ({ reason }) => result(undefined, `Not done: ${undotted(oneLine(reason)) || "the policy service gave no answer"}. Nothing was`
  + " shown or called; this says nothing about any tool. A later retry may succeed. If it does not, tell the user that the operator of this proxy must look into it.", true);
function checkedArguments({ arguments: text }) {
  const [flag, limit, query] = ["include_disabled", "limit", "query"].map((key) => read(text).get(key) ?? undefined);
  const kind = (value) => (Array.isArray(value) ? "a list"
    : { undefined: "not given", boolean: "a truth value", string: "text", function: "a number", object: "an object" }[typeof value]);
  const number = typeof limit === "function" ? Number(limit()) + 0 : NaN;
  const found = !(Math.abs(number) < 1e9) ? kind(limit) : Number.isInteger(number) ? number : "a fraction";
  const error = kind(flag ?? true) !== "a truth value" ? `\`include_disabled\` must be true or false, and is ${kind(flag)}`
    : limit !== undefined && !(Number.isInteger(number) && number >= 1 && number <= 100) ? `\`limit\` must be a whole number from 1 to 100, and is ${found}`
    : kind(query) !== "text" ? `\`query\` must be text, and is ${kind(query)}`
    : !/[\p{L}\p{N}]/u.test(query) ? "`query` is empty: it needs at least one word" : "";
  return error ? result(undefined, `Not done: ${error}.`, true) : write({ query, limit: number || 15, include_disabled: flag ?? false });
}
function load_messages({ responses, reasons, phrases }) {
  const status = (name) => known(responses[name].verdict?.status, LOAD) ?? "permanent";
  const template = (name) => author(responses[name], "message", LOAD) || "Tools are not available from {servers}. Tell the user.";
  const reason = (name) => (status(name) === "permanent" ? undotted(shortened(oneLine(own(reasons, name) ?? ""))) : "");
  return write(Object.fromEntries(LOAD.slice(2).map((each) => {
    const servers = Object.keys(responses).sort(compared).filter((name) => status(name) === each);
    return [each, unique(servers.map(template)).map((words) => {
      const group = servers.filter((name) => template(name) === words);
      const named = group.filter((name) => servers.indexOf(name) < 5).map((name) => quoted(name) + (reason(name) && ` (${reason(name)})`));
      const others = group.length - named.length;
      const more = named.length ? ` and ${others} more` : others === 1 ? "1 server" : `${others} servers`;
      return fill(words.includes("{servers}") ? words : `{servers}: ${words}`, phrases, {}, { servers: named.join(", ") + (others ? more : "") });
    }).join(" ") || undefined];
  })));
}
function enable_result({ response, server, phrases, variables = [], locks, reason = "", load }) {
  const status = known(response.verdict?.status, ENABLE) ?? "connect_failed";
  const locked = Object.entries(locks ?? {}).map(([lock, text]) => `${lock}: ${oneLine(text)}`).join(" ") || "It lists no tools.";
  const cause = load ? ` (${known(load.verdict?.status, LOAD) ?? "permanent"})` : "";
  const texts = { variables: variables.map(quoted).join(", ") || "some of its variables", locks: locks ? locked : "It is not known which lock remains.",
    reason: (undotted(oneLine(reason)) || "the reason is not known") + cause };
  const text = fill(author(response, "message", ENABLE) || UNEXPLAINED, phrases, { server }, texts);
  const connected = ["already_enabled", "enabled"].includes(status);
  const parts = connected ? `Connected: ${status}. ${text}` : `Not connected: ${status}. ${text} Do not claim that it is connected or call its tools.`;
  return result({ status, server: cut(server), tools_changed: +(status === "enabled") }, parts, !connected && status !== "authorization_required");
}
const FUNCTIONS = { discovery, counts, rejection, unknown_tool, near_names: unknown_tool, unavailable, arguments: checkedArguments, load_messages, enable_result };
const replayed = Object.entries(FUNCTIONS).flatMap(([file, answered]) => {
  const { vectors, judgements } = JSON.parse(readFileSync(`${import.meta.dirname}/${file}.json`, "utf8"));
  return vectors.map((vector) => ({ vector, name: `${file}: ${vector.name}`, answer: answered(vector, judgements) }));
});
const different = replayed.filter(({ vector, answer }) => answer !== vector.result);
for (const { name, vector, answer } of different) console.log(`${name}\n  here: ${answer}\n  file: ${vector.result}`);
console.log(`${replayed.length} vectors, ${different.length} different`);
process.exitCode = different.length || !replayed.length ? 1 : 0;
