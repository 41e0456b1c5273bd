"""From rule files to a proved policy. Nothing here knows gRPC or MCP.

Its rooms stand in the order of the work, and each knows only those before it:

- `names`: names as rules see them, through patterns
- `questions`: the three questions, with their facts, statuses and texts
- `rules`: rules, laws and words, and their semantics
- `reading`: from the files of a policy to rules and tests, or to findings
- `deciding`: from rules to a decision diagram, which the rules engine confirms
- `proving`: what is proved about the whole diagram, and what the tests cover
- `reporting`: explanations, tables and differences for people

The module beside them joins these: `loading` for a whole policy.
"""
