package callability

var isReadOnly = true

// likelyTool are the facts of a tool that only its server or the agent can lock.
var likelyTool = ToolFacts{
	ConfigDenied: False, Approval: NoRecord(), Annotations: &Annotations{ReadOnly: &isReadOnly}, Labels: NoLabels(),
}

// DecideServer answers about a server without a tool, such as before it is started or listed: callable if some tool of it
// could be called by this agent, whatever its name and its facts. Otherwise no tool can, and the verdict is that about one
// which nothing else locks. It allocates, and is not for the call path. A nil server is unknown.
func (p *Policy) DecideServer(agent *Agent, server *Server) Verdict {
	tool := server.Tool("tool", likelyTool)
	verdict := p.Decide(agent, tool)
	if verdict.policy == nil || verdict.number < 0 || verdict.Callable() {
		return verdict
	}
	if number, is := p.someCallable(p.readings(nil, tool), verdict.agent.points); is {
		verdict.number = number
	}
	return verdict
}

// someCallable looks for a callable verdict at the points where the facts of the server and of the agent are as they are,
// and those of the tool are known.
func (p *Policy) someCallable(readings, agent []int32) (number int32, is bool) {
	points := make([][]int32, len(p.axes))
	for place := range p.axes {
		if p.axes[place].ofAgent {
			points[place] = []int32{agent[place]}
		} else {
			points[place] = p.tools().pointsOfServer(place, readings)
		}
	}
	seen, waiting := map[int32]bool{}, []int32{p.diagram.root()}
	for len(waiting) > 0 {
		node := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if node < 0 {
			if p.verdicts[^node].status == StatusCallable {
				return ^node, true
			}
			continue
		}
		if seen[node] {
			continue
		}
		seen[node] = true
		for _, point := range points[p.diagram.nodes[node]] {
			waiting = append(waiting, p.diagram.nodes[node+1+point])
		}
	}
	return 0, false
}

func (s *ruleSet) pointsOfServer(place int, readings []int32) []int32 {
	var found []int32
	axis := &s.axes[place]
	for point := range axis.points() {
		possible := true
		for number, reading := range axis.at(point) {
			fact := axis.facts[number]
			if s.facts[fact].subject == subjectServer {
				possible = possible && reading == readings[fact]
			} else {
				possible = possible && int(reading) < len(s.facts[fact].values)
			}
		}
		if possible {
			found = append(found, int32(point))
		}
	}
	return found
}
