package callability

import "slices"

// readings returns the reading of every fact about tools, in the order of the facts. A nil agent or tool is unknown.
func (p *Policy) readings(agent *Agent, tool *Tool) []int32 {
	facts := p.tools().facts
	found := make([]int32, len(facts))
	for place := range facts {
		found[place] = facts[place].reading(agent, tool)
	}
	return found
}

func (f *fact) reading(agent *Agent, tool *Tool) int32 {
	switch f.kind {
	case factName:
		return f.nameReading(agent, tool)
	case factLabel:
		return f.labelReading(labelsOf(f, agent, tool))
	case factDeclared:
		return f.textReading(declaredOf(f, agent, tool)[f.key])
	}
	return f.textReading(fieldText(f.name, tool))
}

// staysUnknown reports whether the fact, which is unknown, stays so until a person changes something: no later call knows it.
func (f *fact) staysUnknown(agent *Agent, tool *Tool) bool {
	switch {
	case f.alwaysStays, f.subject == subjectAgent && (agent == nil || agent.facts == nil):
		// Without an agent, nothing about it is ever sent.
		return true
	case f.kind == factDeclared:
		_, sent := declaredOf(f, agent, tool)[f.key]
		return sent
	}
	approval := tool.known().Approval
	return f.name == "approval.disabled" && approval.disabled >= Neither || f.name == "approval.status" && approval.status >= ApprovalOther
}

// textReading returns the reading of a value as rule files write it; the empty text is unknown.
func (f *fact) textReading(value string) int32 {
	if place := slices.Index(f.values, value); place >= 0 && value != "" {
		return int32(place)
	}
	if f.asserted {
		return f.defaultValue
	}
	return int32(len(f.values))
}

func (f *fact) labelReading(labels Labels) int32 {
	unknown := int32(len(f.values))
	if labels == nil {
		return unknown
	}
	value, given := labels[f.key]
	if !given {
		return f.textReading(noLabel)
	}
	if value == noLabel {
		// The word for a label that is not there is no value of one that is.
		return unknown
	}
	return f.textReading(value)
}

const noLabel = "none"

func (f *fact) nameReading(agent *Agent, tool *Tool) int32 {
	if len(f.values) == 0 {
		return 0
	}
	switch {
	case f.subject == subjectAgent && agent != nil && agent.facts != nil:
		return agent.name.reading(f)
	case f.subject == subjectTool && tool != nil && tool.name != nil:
		return tool.name.reading(f)
	case f.subject == subjectServer && tool != nil && tool.server != nil && tool.server.name != nil:
		return tool.server.name.reading(f)
	}
	return int32(len(f.values))
}

func labelsOf(f *fact, agent *Agent, tool *Tool) Labels {
	switch {
	case f.subject == subjectServer:
		return tool.Server().known().Labels
	case f.subject == subjectTool:
		return tool.known().Labels
	case f.subject == subjectAgent && agent != nil && agent.facts != nil:
		return agent.facts.Labels
	}
	return nil
}

func declaredOf(f *fact, agent *Agent, tool *Tool) Declared {
	switch {
	case f.subject == subjectServer:
		return tool.Server().known().Declared
	case f.subject == subjectTool:
		return tool.known().Declared
	case f.subject == subjectAgent && agent != nil && agent.facts != nil:
		return agent.facts.Declared
	}
	return nil
}

// fieldText returns the value of a fact that is a field of the contract; empty: unknown, as is one of a later version.
func fieldText(name string, tool *Tool) string {
	switch name {
	case "server.enabled":
		return boolText(tool.Server().known().Enabled)
	case "server.quarantined":
		return boolText(tool.Server().known().Quarantined)
	case "tool.config_denied":
		return boolText(tool.known().ConfigDenied)
	case "caller.refuses":
		return boolText(Known(tool.known().CallerRefuses))
	}
	return toolText(name, tool.known())
}

func toolText(name string, facts ToolFacts) string {
	disabled, status := facts.Approval.text()
	readOnly, destructive, idempotent, openWorld := facts.Annotations.hints()
	switch name {
	case "approval.disabled":
		return disabled
	case "approval.status":
		return status
	case "annotations.read_only":
		return readOnly
	case "annotations.destructive":
		return destructive
	case "annotations.idempotent":
		return idempotent
	case "annotations.open_world":
		return openWorld
	}
	return ""
}
