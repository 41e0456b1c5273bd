package callability

import (
	"maps"
	"sync/atomic"
)

// A Server is a handle of an upstream server. Register it once, and Set its facts when they change.
// It is safe for concurrent use; do not copy it. The zero Server is one of which nothing is known.
type Server struct {
	name  classedName
	state atomic.Pointer[serverState]
}

// A Tool is a handle of a tool. Register it once, and Set its facts when they change.
// It is safe for concurrent use; do not copy it. The zero Tool has an error, and is not callable.
type Tool struct {
	server *Server
	name   classedName
	state  atomic.Pointer[toolState]
}

// An Agent is a handle of an agent. It is safe for concurrent use; do not copy it. The zero Agent, like a nil one, is unknown.
type Agent struct {
	name   classedName
	facts  *AgentFacts
	err    error
	points atomic.Pointer[agentPoints]
}

type serverState struct {
	facts ServerFacts
	err   error
}

type toolState struct {
	facts    ToolFacts
	err      error
	compiled atomic.Pointer[toolPoints]
}

// toolPoints are the points of the axes of a policy at which a tool is, -1 for the axes of the agent.
type toolPoints struct {
	policy *Policy
	server *serverState
	start  int32
	points []int32
	err    error
}

// agentPoints are the points of the axes of a policy at which an agent is.
type agentPoints struct {
	policy *Policy
	points []int32
	err    error
}

// A classedName is a name, and its class for the fact that asked last.
type classedName struct {
	text  string
	class atomic.Pointer[nameClass]
}

// Each policy has facts of its own, so that the fact names the policy too.
type nameClass struct {
	fact    *fact
	reading int32
}

func (n *classedName) reading(fact *fact) int32 {
	if found := n.class.Load(); found != nil && found.fact == fact {
		return found.reading
	}
	found := &nameClass{fact, fact.classOf(n.text)}
	n.class.Store(found)
	return found.reading
}

// NewServer registers a server under the name that agents see.
func NewServer(name string, facts ServerFacts) *Server {
	s := &Server{name: classedName{text: name}}
	s.Set(facts)
	return s
}

// Set replaces the facts of the server, for all its tools.
func (s *Server) Set(facts ServerFacts) {
	facts.Labels, facts.Declared = maps.Clone(facts.Labels), maps.Clone(facts.Declared)
	err := checkName(s.name.text, "server", false)
	if err == nil {
		err = checkLabels(facts.Labels, "server")
	}
	if err == nil {
		err = checkDeclared(facts.Declared, "server")
	}
	s.state.Store(&serverState{facts, err})
}

// Name is the name of the server.
func (s *Server) Name() string {
	if s == nil {
		return ""
	}
	return s.name.text
}

// Tool registers a tool of the server under the name that the server gives it.
func (s *Server) Tool(name string, facts ToolFacts) *Tool {
	t := &Tool{server: s, name: classedName{text: name}}
	t.Set(facts)
	return t
}

// Facts are the facts that were set last. Do not change what they refer to.
func (s *Server) Facts() ServerFacts {
	if s != nil {
		if state := s.state.Load(); state != nil {
			return state.facts
		}
	}
	return ServerFacts{}
}

// Facts are the facts that were set last. Do not change what they refer to.
func (t *Tool) Facts() ToolFacts {
	if t != nil {
		if state := t.state.Load(); state != nil {
			return state.facts
		}
	}
	return ToolFacts{}
}

// Facts are the facts of the agent, and whether it is known. Do not change what they refer to.
func (a *Agent) Facts() (AgentFacts, bool) {
	if a == nil || a.facts == nil {
		return AgentFacts{}, false
	}
	return *a.facts, true
}

// Set replaces the facts of the tool.
func (t *Tool) Set(facts ToolFacts) {
	facts.Labels, facts.Declared = maps.Clone(facts.Labels), maps.Clone(facts.Declared)
	if facts.Annotations != nil {
		copied := *facts.Annotations
		facts.Annotations = &copied
	}
	err := checkName(t.name.text, "tool", false)
	if err == nil {
		err = checkLabels(facts.Labels, "tool")
	}
	if err == nil {
		err = checkDeclared(facts.Declared, "tool")
	}
	t.state.Store(&toolState{facts: facts, err: err})
}

// Name is the name of the tool, without that of its server.
func (t *Tool) Name() string {
	if t == nil {
		return ""
	}
	return t.name.text
}

// Server is the server of the tool.
func (t *Tool) Server() *Server {
	if t == nil {
		return nil
	}
	return t.server
}

// NewAgent registers an agent that is known. To change its facts, register it again.
func NewAgent(facts AgentFacts) *Agent {
	facts.Labels, facts.Declared = maps.Clone(facts.Labels), maps.Clone(facts.Declared)
	err := checkName(facts.Name, "agent", true)
	if err == nil {
		err = checkLabels(facts.Labels, "agent")
	}
	if err == nil {
		err = checkDeclared(facts.Declared, "agent")
	}
	return &Agent{name: classedName{text: facts.Name}, facts: &facts, err: err}
}

func (s *Server) stateIn(p *Policy) *serverState {
	if s != nil {
		if state := s.state.Load(); state != nil {
			return state
		}
	}
	return p.nowhere
}

func (t *Tool) pointsIn(p *Policy) *toolPoints {
	if t == nil {
		return p.unknownTool
	}
	state := t.state.Load()
	if state == nil {
		return p.unknownTool
	}
	server := t.server.stateIn(p)
	if found := state.compiled.Load(); found != nil && found.policy == p && found.server == server {
		return found
	}
	found := p.compileTool(t, server, state)
	state.compiled.Store(found)
	return found
}

func (a *Agent) pointsIn(p *Policy) *agentPoints {
	if a == nil || a.facts == nil {
		return p.unknownAgent
	}
	if found := a.points.Load(); found != nil && found.policy == p {
		return found
	}
	found := p.compileAgent(a)
	a.points.Store(found)
	return found
}

func (p *Policy) compileTool(t *Tool, server *serverState, state *toolState) *toolPoints {
	found := &toolPoints{policy: p, server: server, points: make([]int32, len(p.axes))}
	switch {
	case t == nil:
		found.err = checkName("", "tool", false)
	case state.err != nil:
		found.err = state.err
	case server.err != nil:
		found.err = server.err
	case t.server.Name() == "":
		found.err = checkName("", "server", false)
	}
	if found.err != nil {
		return found
	}
	readings := p.readings(nil, t, server, state)
	for place := range p.axes {
		if p.axes[place].ofAgent {
			found.points[place] = -1
		} else if found.points[place] = p.axes[place].point(readings); found.points[place] < 0 {
			found.err = errImpossible
			return found
		}
	}
	found.start = p.diagram.ofTool(found.points)
	return found
}

func (p *Policy) compileAgent(a *Agent) *agentPoints {
	found := &agentPoints{policy: p, points: make([]int32, len(p.axes))}
	if a != nil && a.err != nil {
		found.err = a.err
		return found
	}
	readings := p.readings(a, nil, p.nowhere, &toolState{})
	for place := range p.axes {
		if !p.axes[place].ofAgent {
			continue
		}
		if found.points[place] = p.axes[place].point(readings); found.points[place] < 0 {
			found.err = errImpossible
		}
	}
	return found
}
