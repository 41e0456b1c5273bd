package remote

import (
	"context"
	"fmt"
	"strings"

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
