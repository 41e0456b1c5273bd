package remote

import (
	"github.com/callability/callability/clients/go/callability"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// CheckRequest is the request about one tool.
func CheckRequest(agent *callability.Agent, tool *callability.Tool) *v1.CheckToolRequest {
	return &v1.CheckToolRequest{
		Agent:       agentMessage(agent),
		Server:      tool.Server().Name(),
		ServerFacts: serverMessage(tool.Server().Facts()),
		Tool:        tool.Name(),
		ToolFacts:   toolMessage(tool.Facts()),
	}
}

// CheckToolsRequest is the request about many tools: neighbours of the same server form one group.
func CheckToolsRequest(agent *callability.Agent, tools []*callability.Tool) *v1.CheckToolsRequest {
	request := &v1.CheckToolsRequest{Agent: agentMessage(agent)}
	var server *callability.Server
	for place, tool := range tools {
		if place == 0 || tool.Server() != server {
			server = tool.Server()
			request.Servers = append(request.Servers, &v1.ServerTools{Name: server.Name(), Facts: serverMessage(server.Facts())})
		}
		group := request.Servers[len(request.Servers)-1]
		group.Tools = append(group.Tools, &v1.Tool{Name: tool.Name(), Facts: toolMessage(tool.Facts())})
	}
	return request
}

// AnswerOf is what the adapter takes of an answer about one tool. Without a verdict, the tool is held back.
func AnswerOf(reply *v1.CheckToolResponse) callability.Answer {
	found := VerdictOf(reply.GetVerdict())
	found.Words, found.Remaining = WordsOf(reply.GetWords()), PathOf(reply.GetRemaining())
	return found
}

// VerdictOf is what the adapter takes of a verdict about one of many tools, without words. Without a verdict, the tool is
// held back.
func VerdictOf(verdict *v1.ToolVerdict) callability.Answer {
	if verdict == nil {
		return callability.Answer{WithholdText: true}
	}
	return callability.Answer{
		Status:       statusOf(verdict.GetStatus()),
		Rule:         verdict.GetRule(),
		Undetermined: verdict.GetUndetermined(),
		Retry:        retryOf(verdict.GetRetry()),
		WithholdText: verdict.GetWithholdText(),
		Unread:       verdict.GetUnread(),
	}
}

// PathOf is a path to callable, or what remains of one, as the adapter takes it.
func PathOf(path *v1.PathToCallable) callability.Path {
	found := callability.Path{End: callability.PathEndLater, FindOut: path.GetFindOut()}
	if _, known := v1.PathEnd_name[int32(path.GetEnd())]; known {
		found.End = callability.PathEnd(path.GetEnd())
	}
	for _, step := range path.GetSteps() {
		changes := make([]callability.Change, len(step.GetChanges()))
		for place, each := range step.GetChanges() {
			changes[place] = callability.Change{
				Fact: each.GetFact(), Current: each.GetCurrent(), Wanted: each.GetWantedValues(),
				ChangedBy: callability.LiftedBy(known(each.GetChangedBy(), v1.LiftedBy_name)),
				Action:    each.GetAction(), Phrase: each.GetPhrase(),
			}
		}
		found.Steps = append(found.Steps, callability.Step{
			Rule: step.GetRule(), Status: statusOf(step.GetStatus()), Changes: changes,
		})
	}
	return found
}

// WordsOf are words as the adapter takes them.
func WordsOf(words *v1.ToolWords) callability.Words {
	return callability.Words{
		Status:      statusOf(words.GetStatus()),
		Rule:        words.GetRule(),
		Remediation: words.GetRemediation(),
		Rejection:   words.GetRejection(),
		Phrases:     words.GetPhrases(),
	}
}

// A status of a later version is none: the tool is held back.
func statusOf(status v1.ToolStatus) callability.Status {
	return callability.Status(known(status, v1.ToolStatus_name))
}

func retryOf(retry v1.Retry) callability.Retry { return callability.Retry(known(retry, v1.Retry_name)) }

func agentMessage(agent *callability.Agent) *v1.Agent {
	facts, known := agent.Facts()
	if !known {
		return nil
	}
	return &v1.Agent{Name: facts.Name, Labels: labelsMessage(facts.Labels), DeclaredFacts: declaredMessage(facts.Declared)}
}

func serverMessage(facts callability.ServerFacts) *v1.ServerFacts {
	return &v1.ServerFacts{
		Enabled:       truth(facts.Enabled),
		Quarantined:   truth(facts.Quarantined),
		Labels:        labelsMessage(facts.Labels),
		DeclaredFacts: declaredMessage(facts.Declared),
	}
}

func toolMessage(facts callability.ToolFacts) *v1.ToolFacts {
	message := &v1.ToolFacts{
		ConfigDenied:  truth(facts.ConfigDenied),
		Approval:      approvalMessage(facts.Approval),
		CallerRefuses: facts.CallerRefuses,
		Labels:        labelsMessage(facts.Labels),
		DeclaredFacts: declaredMessage(facts.Declared),
	}
	if hints := facts.Annotations; hints != nil {
		message.Annotations = &v1.Annotations{
			ReadOnly: hints.ReadOnly, Destructive: hints.Destructive, Idempotent: hints.Idempotent, OpenWorld: hints.OpenWorld,
		}
	}
	return message
}

func approvalMessage(approval callability.Approval) *v1.Approval {
	readable, record := approval.Known()
	if !readable {
		return nil
	}
	message := &v1.Approval{}
	if record {
		disabled, status := approval.Fields()
		message.Record = &v1.ApprovalRecord{Disabled: truth(disabled), DisabledUnspecified: disabled >= callability.Neither}
		if status >= callability.ApprovalOther {
			message.Record.Status = v1.ApprovalStatus_APPROVAL_STATUS_UNSPECIFIED.Enum()
		} else if status != callability.ApprovalUnknown {
			message.Record.Status = v1.ApprovalStatus(status).Enum()
		}
	}
	return message
}

func truth(value callability.Bool) *bool {
	if value != callability.True && value != callability.False {
		return nil
	}
	known := value == callability.True
	return &known
}

func labelsMessage(labels callability.Labels) *v1.Labels {
	if labels == nil {
		return nil
	}
	return &v1.Labels{Values: labels}
}

func declaredMessage(declared callability.Declared) *v1.DeclaredFacts {
	if declared == nil {
		return nil
	}
	return &v1.DeclaredFacts{Values: declared}
}
