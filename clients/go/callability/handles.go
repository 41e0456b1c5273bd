package callability

import (
	"encoding/binary"
	"sync/atomic"
)

// A Server is a handle of an upstream server: its name, and what is known of it. It never changes, is safe for concurrent
// use, and must not be copied. The zero Server is one of which nothing is known.
type Server struct {
	name  *nameOf
	facts ServerFacts
	err   error
}

// A Tool is a handle of a tool: its server, its name, and what is known of it. It never changes, is safe for concurrent use,
// and must not be copied. The zero Tool has an error, and is not callable.
type Tool struct {
	server *Server
	name   *nameOf
	facts  ToolFacts
	err    error
	points atomic.Pointer[toolPoints]
}

// An Agent is a handle of an agent. It never changes, is safe for concurrent use, and must not be copied. The zero Agent,
// like a nil one, is unknown.
type Agent struct {
	name   nameOf
	facts  *AgentFacts
	err    error
	points atomic.Pointer[agentPoints]
}

// toolPoints are the points of the axes of a policy at which a tool is, -1 for the axes of the agent. The policy is named by
// its number, so that a handle does not keep a policy that was replaced.
type toolPoints struct {
	policy uint64
	start  int32
	points []int32
	// stays are the facts that stay unknown.
	stays []int32
	err   error
}

// agentPoints are the points of the axes of a policy at which an agent is.
type agentPoints struct {
	policy uint64
	points []int32
	// stays are the facts that stay unknown.
	stays []int32
	err   error
	// key is equal for agents that no rule of the policy distinguishes.
	key string
}

// A nameOf is a name, and its class for the fact that read it last.
type nameOf struct {
	text  string
	class atomic.Pointer[nameClass]
}

// Each policy has facts of its own, so that the fact names the policy too.
type nameClass struct {
	fact    *fact
	reading int32
}

func (n *nameOf) reading(fact *fact) int32 {
	if found := n.class.Load(); found != nil && found.fact == fact {
		return found.reading
	}
	found := &nameClass{fact, fact.classOf(n.text)}
	n.class.Store(found)
	return found.reading
}

// NewServer returns a handle of a server under the name that agents see.
func NewServer(name string, facts ServerFacts) *Server { return newServer(&nameOf{text: name}, facts) }

func newServer(name *nameOf, facts ServerFacts) *Server {
	facts = facts.clone()
	return &Server{name, facts, checkItem("server", name.text, false, facts.Labels, facts.Declared)}
}

// Name is the name of the server.
func (s *Server) Name() string {
	if s == nil || s.name == nil {
		return ""
	}
	return s.name.text
}

// Facts are what is known of the server.
func (s *Server) Facts() ServerFacts { return s.known().clone() }

func (s *Server) known() ServerFacts {
	if s == nil {
		return ServerFacts{}
	}
	return s.facts
}

// With returns a handle of the same server with other facts. The tools of this one keep its facts: see [Tool.On].
func (s *Server) With(facts ServerFacts) *Server {
	if s == nil || s.name == nil {
		return NewServer("", facts)
	}
	return newServer(s.name, facts)
}

// Tool returns a handle of a tool of the server under the name that the server gives it.
func (s *Server) Tool(name string, facts ToolFacts) *Tool {
	return newTool(s, &nameOf{text: name}, facts)
}

func newTool(server *Server, name *nameOf, facts ToolFacts) *Tool {
	facts = facts.clone()
	err := checkItem("tool", name.text, false, facts.Labels, facts.Declared)
	return &Tool{server: server, name: name, facts: facts, err: err}
}

// Name is the name of the tool, without that of its server.
func (t *Tool) Name() string {
	if t == nil || t.name == nil {
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

// Facts are what is known of the tool.
func (t *Tool) Facts() ToolFacts { return t.known().clone() }

func (t *Tool) known() ToolFacts {
	if t == nil {
		return ToolFacts{}
	}
	return t.facts
}

// With returns a handle of the same tool with other facts.
func (t *Tool) With(facts ToolFacts) *Tool {
	if t == nil || t.name == nil {
		return t.Server().Tool("", facts)
	}
	return newTool(t.server, t.name, facts)
}

// On returns a handle of the same tool on a server whose facts have changed.
func (t *Tool) On(server *Server) *Tool {
	if t == nil || t.name == nil {
		return server.Tool("", t.known())
	}
	return &Tool{server: server, name: t.name, facts: t.facts, err: t.err}
}

// NewAgent returns a handle of an agent that is known. Agents that no rule distinguishes share their judgements, so that a
// new handle for each request costs next to nothing.
func NewAgent(facts AgentFacts) *Agent {
	facts = facts.clone()
	err := checkItem("agent", facts.Name, true, facts.Labels, facts.Declared)
	return &Agent{name: nameOf{text: facts.Name}, facts: &facts, err: err}
}

// Facts are the facts of the agent, and whether it is known.
func (a *Agent) Facts() (AgentFacts, bool) {
	if a == nil || a.facts == nil {
		return AgentFacts{}, false
	}
	return a.facts.clone(), true
}

func checkItem(what, name string, mayBeEmpty bool, labels Labels, declared Declared) error {
	if err := checkName(name, what, mayBeEmpty); err != nil {
		return err
	}
	if err := checkLabels(labels, what); err != nil {
		return err
	}
	return checkDeclared(declared, what)
}

func (t *Tool) pointsIn(p *Policy) *toolPoints {
	if t == nil || t.name == nil {
		return p.unknownTool
	}
	if found := t.points.Load(); found != nil && found.policy == p.number {
		return found
	}
	found := p.compileTool(t)
	t.points.Store(found)
	return found
}

func (a *Agent) pointsIn(p *Policy) *agentPoints {
	if a == nil || a.facts == nil {
		return p.unknownAgent
	}
	if found := a.points.Load(); found != nil && found.policy == p.number {
		return found
	}
	found := p.compileAgent(a)
	a.points.Store(found)
	return found
}

func (p *Policy) compileTool(t *Tool) *toolPoints {
	found := &toolPoints{policy: p.number, points: make([]int32, len(p.axes))}
	switch {
	case t == nil:
		found.err = checkName("", "tool", false)
	case t.err != nil:
		found.err = t.err
	case t.server != nil && t.server.err != nil:
		found.err = t.server.err
	case t.server.Name() == "":
		found.err = checkName("", "server", false)
	}
	if found.err != nil {
		return found
	}
	readings := p.readings(nil, t)
	for place := range p.axes {
		if p.axes[place].ofAgent {
			found.points[place] = -1
		} else if found.points[place] = p.axes[place].point(readings); found.points[place] < 0 {
			found.err = errImpossible
			return found
		}
		found.stays = p.appendStays(found.stays, place, readings, nil, t)
	}
	found.start = p.diagram.ofTool(found.points)
	return found
}

// appendStays appends the facts of an axis that stay unknown.
func (p *Policy) appendStays(stays []int32, axis int, readings []int32, agent *Agent, tool *Tool) []int32 {
	for _, place := range p.axes[axis].facts {
		fact := &p.tools().facts[place]
		if int(readings[place]) >= len(fact.values) && fact.staysUnknown(agent, tool) {
			stays = append(stays, place)
		}
	}
	return stays
}

// withError is the key of every agent that cannot be judged: its error is in no judgement.
const withError = "error"

func (p *Policy) compileAgent(a *Agent) *agentPoints {
	found := &agentPoints{policy: p.number, points: make([]int32, len(p.axes)), key: withError}
	if a != nil && a.err != nil {
		found.err = a.err
		return found
	}
	readings := p.readings(a, nil)
	var key []byte
	for place := range p.axes {
		if !p.axes[place].ofAgent {
			continue
		}
		if found.points[place] = p.axes[place].point(readings); found.points[place] < 0 {
			found.err = errImpossible
			return found
		}
		found.stays = p.appendStays(found.stays, place, readings, a, nil)
		key = binary.AppendUvarint(key, uint64(found.points[place]))
	}
	for _, place := range found.stays {
		key = binary.AppendUvarint(key, uint64(place))
	}
	found.key = "=" + string(key)
	return found
}
