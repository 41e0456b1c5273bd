"""From rule files to a proved policy and its bundle. Nothing here knows gRPC or MCP.

Its modules, bottom to top; each imports only from those above it in this list:

- `names`: names as rules see them, through patterns
- `question`: a question with its facts
- `questions`: the three questions, with their facts, statuses and texts
- `rule_set`: rules, laws and words
- `forms`: reading the parts of a file, with a finding for each that is wrong
- `rule_file`: from a file of rules or tests to a rule set, or to findings
- `schema`: the JSON Schemas of these files
- `nodes`: the shared nodes of diagrams
- `combination_sets`: sets of combinations of facts
- `diagram`: from rules to a decision diagram
- `engine`: the rules engine, in a process of its own
- `confirmation`: confirms a diagram by what the engine answers
- `proof`: what is proved about the whole diagram, and what the tests cover
- `policy`: checks and loads a whole policy
- `difference`: what an edit changes
- `table`: decision tables for people
- `sql`: a rule set as an SQL query
- `bundle_writing`: writes a proved policy as a bundle
- `check_worker`: the process that checks the files of a policy
- `validation_worker`: the process that checks the policy of a request
- `finding_meanings`: what each finding means, and what to do about it
"""
