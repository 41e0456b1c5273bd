// Package callability decides, in the process of an MCP proxy, why a tool can or cannot be called.
//
// It reads a compiled policy (a bundle, which `callability bundle build` writes) and answers from it: no service, no rule
// files, and nothing outside the standard library. A bundle is untrusted input until all its checks have passed.
//
// Register a handle of each server, tool and agent once; handles know the classes of their names, and their facts can be
// Set when they change. Policy.Decide then answers without allocation. A fact that was not set is unknown, and locks: the
// zero value of every type fails closed.
package callability
