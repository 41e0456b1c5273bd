package remote

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/callability/callability/clients/go"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

// A columnAxis has for the values of its facts the number of the first point that has them.
type columnAxis struct {
	facts    []string
	ofServer bool
	size     int
	points   map[string]int
	defaults []string
	declared []bool
}

// A nameAxis keeps the points of names that responses have named.
type nameAxis struct {
	fact  string
	size  int
	mutex sync.RWMutex
	known map[string]int
}

func (a *columnAxis) point(tool *callability.Tool) int {
	var key strings.Builder
	for place, name := range a.facts {
		if place > 0 {
			key.WriteByte(0)
		}
		key.WriteString(a.value(name, tool, a.declared[place], a.defaults[place]))
	}
	if point, known := a.points[key.String()]; known {
		return point
	}
	// A label or a declared fact with a value that is not declared is unknown, or has the default.
	return a.points[strings.Join(a.defaults, "\x00")]
}

func (a *columnAxis) value(name string, tool *callability.Tool, declared bool, otherwise string) string {
	labels, sent := tool.Facts().Labels, tool.Facts().Declared
	if a.ofServer {
		labels, sent = tool.Server().Facts().Labels, tool.Server().Facts().Declared
	}
	if declared {
		if value, given := sent[name]; given {
			return value
		}
		return otherwise
	}
	if _, key, isLabel := strings.Cut(name, ".label."); isLabel {
		return labelValue(labels, key)
	}
	return fieldValue(name, tool)
}

func labelValue(labels callability.Labels, key string) string {
	value, given := labels[key]
	switch {
	case labels == nil || given && value == "none":
		return unknownValue
	case !given:
		return "none"
	}
	return value
}

func (n *nameAxis) column(tools []*callability.Tool) *v1.AxisColumn {
	names := make([]string, len(tools))
	for row, tool := range tools {
		names[row] = tool.Name()
		if n.fact == "server.name" {
			names[row] = tool.Server().Name()
		}
	}
	if points, known := n.points(names); known {
		return pointColumn(n.fact, points, n.size)
	}
	places, distinct, rows := map[string]int{}, []string{}, make([]int, len(names))
	for row, name := range names {
		place, known := places[name]
		if !known {
			place = len(distinct)
			places[name] = place
			distinct = append(distinct, name)
		}
		rows[row] = place
	}
	column := &v1.NameColumn{Names: distinct, Places: packed(rows, len(distinct))}
	return &v1.AxisColumn{Fact: n.fact, Values: &v1.AxisColumn_Names{Names: column}}
}

func (n *nameAxis) points(names []string) ([]int, bool) {
	n.mutex.RLock()
	defer n.mutex.RUnlock()
	points := make([]int, len(names))
	for row, name := range names {
		point, known := n.known[name]
		if !known {
			return nil, false
		}
		points[row] = point
	}
	return points, true
}

// maxKnownNames is how many names an axis keeps.
const maxKnownNames = 100_000

func (n *nameAxis) learn(names []string, points []int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if len(n.known)+len(names) > maxKnownNames {
		clear(n.known)
	}
	for row, name := range names {
		n.known[name] = points[row]
	}
}

func pointColumn(fact string, points []int, size int) *v1.AxisColumn {
	return &v1.AxisColumn{Fact: fact, Values: &v1.AxisColumn_Points{Points: packed(points, size)}}
}

// widthOf is how many bytes each number below a count has.
func widthOf(count int) int {
	switch {
	case count <= 1<<8:
		return 1
	case count <= 1<<16:
		return 2
	}
	return 4
}

func packed(numbers []int, count int) []byte {
	width := widthOf(count)
	column := make([]byte, 0, width*len(numbers))
	for _, number := range numbers {
		var bytes [4]byte
		binary.LittleEndian.PutUint32(bytes[:], uint32(number))
		column = append(column, bytes[:width]...)
	}
	return column
}

func unpacked(column []byte, count, rows int) ([]int, error) {
	width := widthOf(count)
	if len(column) != width*rows {
		return nil, fmt.Errorf("%w: found a column of %d bytes, wanted %d", ErrUnavailable, len(column), width*rows)
	}
	numbers := make([]int, rows)
	for row := range numbers {
		var bytes [4]byte
		copy(bytes[:], column[row*width:(row+1)*width])
		numbers[row] = int(binary.LittleEndian.Uint32(bytes[:]))
	}
	return numbers, nil
}
