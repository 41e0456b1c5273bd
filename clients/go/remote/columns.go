package remote

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/callability/callability/clients/go"
	v1 "github.com/callability/callability/clients/go/remote/v1"
)

const (
	unknownValue = "unknown"
	// columnAttempts is how often all tools are sent, if the policy changes meanwhile.
	columnAttempts = 3
	// maxBatch is how many tools a request may have.
	maxBatch = 20_000
)

// A FactColumns writes requests by columns, by the axes of one revision. It is safe for concurrent use.
type FactColumns struct {
	revision string
	axes     []columnAxis
	names    []*nameAxis
}

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

// NewFactColumns reads the axes that GetPolicy lists. The service must have CheckColumns.
func NewFactColumns(policy *v1.GetPolicyResponse) *FactColumns {
	columns := &FactColumns{revision: policy.GetRevision()}
	for _, rules := range policy.GetRuleSets() {
		if rules.GetName() != "callability" {
			continue
		}
		declared := map[string]*v1.DeclaredFact{}
		for _, fact := range rules.GetDeclaredFacts() {
			declared[fact.GetFact()] = fact
		}
		for _, axis := range rules.GetAxes() {
			columns.add(axis, declared)
		}
	}
	return columns
}

func (c *FactColumns) add(axis *v1.Axis, declared map[string]*v1.DeclaredFact) {
	switch {
	case axis.GetSubject() == v1.FactSubject_FACT_SUBJECT_AGENT || len(axis.GetFacts()) == 0:
		return
	case len(axis.GetPoints()) == 0:
		c.names = append(c.names, &nameAxis{fact: axis.GetFacts()[0], size: int(axis.GetSize()), known: map[string]int{}})
		return
	}
	read := columnAxis{
		facts: axis.GetFacts(), ofServer: axis.GetSubject() == v1.FactSubject_FACT_SUBJECT_SERVER,
		size: int(axis.GetSize()), points: map[string]int{},
	}
	for _, name := range read.facts {
		fact, isDeclared := declared[name]
		if !isDeclared && !isField(name) && !strings.Contains(name, ".label.") {
			// A fact of a later version: it is absent.
			return
		}
		otherwise := unknownValue
		if isDeclared && fact.GetAsserted() {
			otherwise = fact.GetDefaultValue()
		}
		read.defaults, read.declared = append(read.defaults, otherwise), append(read.declared, isDeclared)
	}
	for number, point := range axis.GetPoints() {
		key := strings.Join(point.GetValues(), "\x00")
		if _, known := read.points[key]; !known {
			read.points[key] = number
		}
	}
	c.axes = append(c.axes, read)
}

// Request is a request about some tools, by columns. A name is sent until a response has named its point.
func (c *FactColumns) Request(agent *callability.Agent, tools []*callability.Tool) *v1.CheckColumnsRequest {
	request := &v1.CheckColumnsRequest{Agent: agentMessage(agent), Revision: c.revision, Tools: uint32(len(tools))}
	for place := range c.axes {
		axis := &c.axes[place]
		points := make([]int, len(tools))
		for row, tool := range tools {
			points[row] = axis.point(tool)
		}
		request.Columns = append(request.Columns, pointColumn(axis.facts[0], points, axis.size))
	}
	for _, axis := range c.names {
		request.Columns = append(request.Columns, axis.column(tools))
	}
	return request
}

// Learn keeps the points of the names in a request that its response has, so that later requests need no names.
func (c *FactColumns) Learn(request *v1.CheckColumnsRequest, response *v1.CheckColumnsResponse) error {
	if response.GetRevision() != c.revision {
		return nil
	}
	for _, found := range response.GetNamePoints() {
		for _, axis := range c.names {
			for _, column := range request.GetColumns() {
				if axis.fact != found.GetFact() || column.GetFact() != axis.fact || column.GetNames() == nil {
					continue
				}
				names := column.GetNames().GetNames()
				points, err := unpacked(found.GetPoints(), axis.size, len(names))
				if err != nil {
					return err
				}
				axis.learn(names, points)
			}
		}
	}
	return nil
}

// Verdicts are the verdicts of a response, one for each of so many tools. Tools with equal verdicts share a message.
func Verdicts(response *v1.CheckColumnsResponse, tools int) ([]*v1.ToolVerdict, error) {
	distinct := response.GetDistinctVerdicts()
	places, err := unpacked(response.GetVerdicts(), len(distinct), tools)
	if err != nil {
		return nil, err
	}
	found := make([]*v1.ToolVerdict, tools)
	for row, place := range places {
		if place >= len(distinct) {
			return nil, fmt.Errorf("%w: found verdict %d, wanted one of %d", ErrUnavailable, place, len(distinct))
		}
		found[row] = distinct[place]
	}
	return found, nil
}

// CheckByColumns decides about many tools by CheckColumns, for large inventories. A service answers it with a fraction
// of the work of Judge, and refuses the whole request if a name in it is not one. Columns that are nil are built; pass
// the result to the next call. They are built again if the policy changes.
func (c *Client) CheckByColumns(
	ctx context.Context, columns *FactColumns, agent *callability.Agent, tools []*callability.Tool,
) ([]callability.Answer, *FactColumns, error) {
	for range columnAttempts {
		if columns == nil {
			policy, err := v1.NewPolicyServiceClient(c).GetPolicy(ctx, &v1.GetPolicyRequest{})
			if err != nil {
				return nil, nil, err
			}
			columns = NewFactColumns(policy)
		}
		answers, err := c.checkColumns(ctx, columns, agent, tools)
		if status.Code(err) != codes.FailedPrecondition {
			return answers, columns, err
		}
		columns = nil
	}
	return nil, nil, fmt.Errorf("%w: the policy changed during each attempt", ErrUnavailable)
}

func (c *Client) checkColumns(
	ctx context.Context, columns *FactColumns, agent *callability.Agent, tools []*callability.Tool,
) ([]callability.Answer, error) {
	answers := make([]callability.Answer, 0, len(tools))
	for start := 0; start < len(tools); start += maxBatch {
		part := tools[start:min(start+maxBatch, len(tools))]
		request := columns.Request(agent, part)
		response, err := v1.NewCallabilityServiceClient(c).CheckColumns(ctx, request)
		if err != nil {
			return nil, err
		}
		verdicts, err := Verdicts(response, len(part))
		if err == nil {
			err = columns.Learn(request, response)
		}
		if err != nil {
			return nil, err
		}
		for _, verdict := range verdicts {
			answers = append(answers, AnswerOf(verdict, nil))
		}
	}
	return answers, nil
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

func isField(name string) bool { return fieldReaders[name] != nil }

func fieldValue(name string, tool *callability.Tool) string { return fieldReaders[name](tool) }

// fieldReaders return the value of a fact that is a field of the contract, as rule files write it.
var fieldReaders = map[string]func(*callability.Tool) string{
	"server.enabled":     func(t *callability.Tool) string { return boolValue(t.Server().Facts().Enabled) },
	"server.quarantined": func(t *callability.Tool) string { return boolValue(t.Server().Facts().Quarantined) },
	"tool.config_denied": func(t *callability.Tool) string { return boolValue(t.Facts().ConfigDenied) },
	"caller.refuses":     func(t *callability.Tool) string { return strconv.FormatBool(t.Facts().CallerRefuses) },
	"approval.disabled":  func(t *callability.Tool) string { disabled, _ := approvalValues(t.Facts().Approval); return disabled },
	"approval.status":    func(t *callability.Tool) string { _, status := approvalValues(t.Facts().Approval); return status },
	"annotations.read_only": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return isReadOnly(a) })
	},
	"annotations.destructive": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return !isReadOnly(a) && hint(a.Destructive, true) })
	},
	"annotations.idempotent": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return isReadOnly(a) || hint(a.Idempotent, false) })
	},
	"annotations.open_world": func(t *callability.Tool) string {
		return hintValue(t, func(a *callability.Annotations) bool { return hint(a.OpenWorld, true) })
	},
}

func boolValue(value callability.Bool) string {
	if value == callability.Unknown {
		return unknownValue
	}
	return strconv.FormatBool(value == callability.True)
}

func approvalValues(approval callability.Approval) (disabled, status string) {
	readable, record := approval.Read()
	switch {
	case !readable:
		return unknownValue, unknownValue
	case !record:
		return "false", "none"
	}
	isDisabled, found := approval.Fields()
	names := map[callability.ApprovalStatus]string{
		callability.Approved: "approved", callability.Pending: "pending", callability.Changed: "changed",
	}
	if name, known := names[found]; known {
		return boolValue(isDisabled), name
	}
	return boolValue(isDisabled), unknownValue
}

// hintValue is unknown without annotations; of a tool that is known to be read-only, two hints follow from that.
func hintValue(tool *callability.Tool, read func(*callability.Annotations) bool) string {
	annotations := tool.Facts().Annotations
	if annotations == nil {
		return unknownValue
	}
	return strconv.FormatBool(read(annotations))
}

func isReadOnly(annotations *callability.Annotations) bool { return hint(annotations.ReadOnly, false) }

func hint(given *bool, otherwise bool) bool {
	if given != nil {
		return *given
	}
	return otherwise
}
