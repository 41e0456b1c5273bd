"""The policy as a gRPC service: it decides from a bundle by the kernel, and never imports what compiles one.

Its modules, bottom to top; each imports only from those above it in this list:

- `callers`: who calls, by token or certificate, what each may call, and how a request is refused
- `metrics`: metrics, the log of calls, and the facts that decisions lack
- `call_spans`: calls as spans of a trace
- `calls`: what each call does, by the policy in effect
- `edits`: follows the files of the policy
- `edge`: reads a request and ends a call, alike for every method
- `guard`: who may call what, and how many connections one peer may have
- `admission`: which call is answered when
- `health`: health and reflection
- `server`: the methods at one address
- `workers`: one process that answers, or several, each looked after
"""
