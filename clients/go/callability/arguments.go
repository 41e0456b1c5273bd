package callability

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Limits are how many tools a discovery answer has. A limit that is not positive has its default.
type Limits struct {
	// Default is how many callable tools there are if the call gives no limit; by default [DefaultLimit].
	Default int
	// Max is the largest limit of a call; by default [MaxLimit].
	Max int
	// Locked is how many locked tools there are at most; by default [MaxLocked].
	Locked int
}

const (
	// DefaultLimit is how many callable tools a discovery answer has if the call gives no limit.
	DefaultLimit = 15
	// MaxLimit is the largest limit of a call.
	MaxLimit = 100
	// MaxLocked is how many locked tools a discovery answer has at most.
	MaxLocked = 10
)

func (l Limits) max() int    { return cmp.Or(max(l.Max, 0), MaxLimit) }
func (l Limits) usual() int  { return min(cmp.Or(max(l.Default, 0), DefaultLimit), l.max()) }
func (l Limits) locked() int { return cmp.Or(max(l.Locked, 0), MaxLocked) }

// An InvalidArgument is a wrong argument of a call by the agent: what was found, and what is wanted.
type InvalidArgument struct{ message string }

func (e *InvalidArgument) Error() string { return e.message }

// Result is what the agent reads.
func (e *InvalidArgument) Result() Result { return errorResult("Not done: " + e.message + ".") }

// Arguments are those of the discovery tool, checked.
type Arguments struct {
	Query           string
	Limit           int
	IncludeDisabled bool
}

// Arguments reads the arguments of the discovery tool from their JSON object. Others are ignored, and null counts as left
// out. An error is an *[InvalidArgument].
func (a Adapter) Arguments(arguments []byte) (Arguments, error) {
	given := map[string]any{}
	if text := bytes.TrimSpace(arguments); len(text) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&given); err != nil {
			return Arguments{}, &InvalidArgument{"the arguments must be an object"}
		}
	}
	found := Arguments{Limit: a.Limits.usual()}
	switch value := given["include_disabled"].(type) {
	case nil:
	case bool:
		found.IncludeDisabled = value
	default:
		return Arguments{}, &InvalidArgument{"`include_disabled` must be true or false, and is " + kindOf(value)}
	}
	if value := given["limit"]; value != nil {
		limit, err := a.Limits.check(value)
		if err != nil {
			return Arguments{}, err
		}
		found.Limit = limit
	}
	query, ok := given["query"].(string)
	if !ok {
		return Arguments{}, &InvalidArgument{"`query` must be text, and is " + kindOf(given["query"])}
	}
	if !strings.ContainsFunc(query, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return Arguments{}, &InvalidArgument{"`query` is empty: it needs at least one word"}
	}
	found.Query = query
	return found, nil
}

func (l Limits) check(value any) (int, error) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, &InvalidArgument{l.wrong(kindOf(value))}
	}
	// Out of the range of a double, the value is an infinity, and the error says no more.
	limit, _ := strconv.ParseFloat(number.String(), 64)
	whole := limit == math.Trunc(limit)
	switch {
	case whole && 1 <= limit && limit <= float64(l.max()):
		return int(limit), nil
	case math.Abs(limit) >= 1e9:
		return 0, &InvalidArgument{l.wrong("a number")}
	case !whole:
		return 0, &InvalidArgument{l.wrong("a fraction")}
	}
	return 0, &InvalidArgument{l.wrong(strconv.Itoa(int(limit)))}
}

func (l Limits) wrong(found string) string {
	return fmt.Sprintf("`limit` must be a whole number from 1 to %d, and is %s", l.max(), found)
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "not given"
	case bool:
		return "a truth value"
	case string:
		return "text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
