"""The policy as a gRPC service: it decides from a bundle by the kernel, and never imports what compiles one.

Its rooms, from bottom to top, each importing only from those above it in this list:

- `requests`: the errors with which a request is refused
- `callers`: who calls, by token or certificate, and what each may call
- `observability`: metrics, and the facts that decisions lack
- `calls`: what each call does, by whichever policy is served
- `transport`: gRPC: admission, the start and end of calls, health, reflection

The modules beside them join these: `server` for callers at an address, `edits` for the files of the policy; `memory` is
about the process. `instance` is one process that answers. With several, `workers` starts each as a `worker`, and looks
after it.
"""
