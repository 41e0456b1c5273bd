package callability

import "encoding/binary"

// axisPoints finds the point of an axis by the readings of its facts.
type axisPoints struct {
	facts   []int32
	ofAgent bool
	// strides and points are a mixed radix of the readings: the point of each combination, or -1.
	strides []int32
	points  []int32
	// listed has the points of an axis without such a table, by their readings.
	listed map[string]int32
}

// The table of an axis has at most the larger of tablePlaces and placesOfOnePoint for each point that the axis lists. Each
// fact multiplies the combinations, so that the tables of a small bundle could otherwise take gigabytes.
const (
	tablePlaces      = 256
	placesOfOnePoint = 8
)

func newAxisPoints(a axis, facts []fact) axisPoints {
	found := axisPoints{facts: a.facts, ofAgent: facts[a.facts[0]].subject == subjectAgent}
	size, most := 1, max(tablePlaces, placesOfOnePoint*a.points())
	for _, place := range a.facts {
		found.strides = append(found.strides, int32(size))
		readings := len(facts[place].values) + 1
		if size > most/readings {
			found.list(a)
			return found
		}
		size *= readings
	}
	found.tabulate(a, size)
	return found
}

func (a *axisPoints) tabulate(listed axis, size int) {
	a.points = make([]int32, size)
	for index := range a.points {
		a.points[index] = -1
	}
	for point := listed.points() - 1; point >= 0; point-- {
		index := int32(0)
		for number, reading := range listed.at(point) {
			index += reading * a.strides[number]
		}
		a.points[index] = int32(point)
	}
}

func (a *axisPoints) list(listed axis) {
	a.listed = make(map[string]int32, listed.points())
	for point := listed.points() - 1; point >= 0; point-- {
		var key []byte
		for _, reading := range listed.at(point) {
			key = binary.AppendUvarint(key, uint64(reading))
		}
		a.listed[string(key)] = int32(point)
	}
}

// point returns the point of the axis where facts have these readings; -1 if they cannot occur together.
func (a *axisPoints) point(readings []int32) int32 {
	if a.points == nil {
		return a.listedPoint(readings)
	}
	index := int32(0)
	for number, fact := range a.facts {
		index += readings[fact] * a.strides[number]
	}
	return a.points[index]
}

func (a *axisPoints) listedPoint(readings []int32) int32 {
	var key []byte
	for _, fact := range a.facts {
		key = binary.AppendUvarint(key, uint64(readings[fact]))
	}
	if point, ok := a.listed[string(key)]; ok {
		return point
	}
	return -1
}
