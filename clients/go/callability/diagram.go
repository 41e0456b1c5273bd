package callability

// A walkable is a decision diagram in one flat array: a node is its axis, followed by a child for each point.
// A child that is negative is the complement of a result, any other the place of a node.
type walkable struct {
	nodes   []int32
	results int32
	// at are the places of the nodes, by their numbers.
	at []int32
}

func newWalkable(d *diagram, axes []axis, results int) *walkable {
	w := &walkable{
		nodes:   make([]int32, 0, len(d.places)+len(d.children)),
		at:      make([]int32, len(d.places)),
		results: int32(results),
	}
	next := 0
	for number, axis := range d.places {
		w.at[number] = int32(len(w.nodes))
		w.nodes = append(w.nodes, axis)
		points := axes[axis].points()
		for _, child := range d.children[next : next+points] {
			w.nodes = append(w.nodes, w.start(child))
		}
		next += points
	}
	return w
}

// start returns where a number of the bundle is found.
func (w *walkable) start(number int32) int32 {
	if number < w.results {
		return ^number
	}
	return w.at[number-w.results]
}

func (w *walkable) root() int32 {
	if len(w.at) == 0 {
		return ^0
	}
	return w.at[len(w.at)-1]
}

// walk returns the result at some points of the axes. An axis of the agent has no point among those of the tool.
func (w *walkable) walk(node int32, tool, agent []int32) int32 {
	nodes := w.nodes
	for node >= 0 {
		axis := nodes[node]
		point := tool[axis]
		if point < 0 {
			point = agent[axis]
		}
		node = nodes[node+1+point]
	}
	return ^node
}

// ofTool walks as far as the points of the tool lead: to a result, or to the first axis of the agent.
func (w *walkable) ofTool(tool []int32) int32 {
	node := w.root()
	for node >= 0 && tool[w.nodes[node]] >= 0 {
		node = w.nodes[node+1+tool[w.nodes[node]]]
	}
	return node
}
