// Package callability decides, in the process of an MCP proxy, why a tool can or cannot be called, and writes what its agent
// reads. It needs nothing outside the standard library.
//
// # To have a policy
//
// The package shipped has one, so that nothing has to be built. [ReadPolicy] and [ReadPolicyFile] read one of your own from a
// bundle, which `callability bundle build` writes; [TrustKeys] and [NotBefore] say what is demanded of it. A [PolicyStore]
// holds the policy in effect: [PolicyStore.Watch] follows a file. A bundle is untrusted input until all its checks have
// passed. [Policy.Check], [Policy.Reads] and [Policy.Vocabulary] compare a policy with what a proxy sends.
//
// # To decide a call
//
// An [Inventory] holds what the proxy knows: [Inventory.PutServer], [Inventory.Replace]. [Inventory.Decide] takes the name
// that an agent gave, and returns the tool to call or what the agent reads instead. Without an inventory, handles are made
// by [NewServer], [Server.Tool] and [NewAgent], [Policy.Decide] answers without allocation, and [Adapter.Rejection] writes
// the text. [Policy.DecideServer] is for a server whose tools are not known. A fact that was not set is unknown, and locks:
// the zero value of every type fails closed. Call a tool only if [Decision.Callable] or [Verdict.Callable] reports true.
//
// # To answer discovery
//
// [Inventory.Judge] decides about every tool that an agent may see, and [Judgement.Discovery] writes the answer.
// [Judgement.Locked] has its parts as values, for an answer in a form of your own. The package search has an index, and the
// words by which locked tools are found.
//
// # To explain
//
// [Policy.Explain] says which rules were tried, and what would make a tool callable.
//
// # Elsewhere
//
// The package records writes a record of each decision about a call, by [Inventory].Decided. The
// package gateway answers three tools that find tools, call them and list servers; the modules mcpgo and mark3labs bind it to
// an SDK. The package outcome is about loads of tools and enables of servers. The module remote asks a service. The package
// callabilitytest checks a proxy in its own tests.
package callability
