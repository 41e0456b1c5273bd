"""The MCP gateway: it connects to upstream servers and serves agents the tools that a policy lets them call.

Its rooms, bottom to top; each imports only from those above it in this list:

- `config`: the operator's files, read once and checked whole
- `policy_client`: asks the policy by `callability.client`, with one form for its errors
- `upstream`: connections to upstream MCP servers, each with one owner
- `loading`: loads the tools of servers, and retries what the policy calls transient
- `catalog`: servers that agents enable and disable, and a person's consent
- `observability`: metrics, logs and the status of the watched files
- `call_records`: records of what people decided in the files
- `tool_index`: the search index over tools
- `meaning`: search by meaning, by a table of word vectors
- `inventory`: the known servers and tools
- `tools`: the gateway's own tools, from the dispatch of a call to its answer
- `agents`: which agent sends a request, and whom to notify of a changed tool list
- `offline`: what the commands read from servers without a running gateway
- `runtime`: the running gateway, which applies every edit of its files
- `people`: the page on which a person looks at the user's gateway, and unlocks what a person may unlock
- `serving`: MCP over stdio and over HTTP, from start to shutdown
"""
