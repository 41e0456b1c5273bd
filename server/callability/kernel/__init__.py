"""The one runtime of a policy: what a bundle decides, explained, in the words and the bytes of the contract.

A fact passes six forms: the contract's message, readings, points, verdict, message, bytes. `EncodedCalls` answers the
calls of the contract from bytes to bytes, as the service does; `LocalCalls` does from messages to messages.

Its modules, bottom to top; each imports only from those above it in this list:

- `limits`: what a request may hold, and how large it may be
- `envelope`: a bundle as bytes: its header, its signatures, what is refused
- `signatures`: keys, and whether a signature is valid
- `conditions`: conditions in three-valued logic, ways to make one false, and first match
- `rule_set`: a compiled rule set, its facts, diagram and verdicts
- `path`: why a verdict was given, and what lifts a lock
- `facts`: the only reader of facts in requests
- `policy`: a compiled policy, read from a bundle or refused
- `results`: the words and the bytes of verdicts
- `byte_calls`: answers calls from bytes to bytes
- `calls`: answers calls from messages to messages
"""
