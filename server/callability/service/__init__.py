"""The policy as a gRPC service: from the contract to facts, and from verdicts back.

Its rooms, from bottom to top, each importing only from those above it in this list:

- `requests`: what a request may hold, and how one is refused
- `callers`: who calls, by token or certificate, and what each may call
- `translation`: from the contract to the facts of rules, and from verdicts back to the contract
- `observability`: metrics, and the facts that decisions lack
- `fast_path`: decisions about tools from bytes to bytes, behind one name
- `calls`: what each call does, by whichever policy is served
- `transport`: gRPC: admission, the start and end of calls, health, reflection

The modules beside them join these: `server` for callers at an address, `edits` for the files of the policy; `memory` is
about the process. `instance` is one process that answers. With several, `supervisor` starts each as a `worker`, speaks
to it by `control`, and `worker_metrics` are those of all.
"""
