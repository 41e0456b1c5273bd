package callability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

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

// CheckArguments reads the arguments of the discovery tool from their JSON object. Others are ignored, and null counts as
// left out. An error is an *InvalidArgument.
func CheckArguments(arguments []byte) (Arguments, error) {
	given := map[string]any{}
	if text := bytes.TrimSpace(arguments); len(text) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&given); err != nil {
			return Arguments{}, &InvalidArgument{"the arguments must be an object"}
		}
	}
	found := Arguments{Limit: DefaultLimit}
	switch value := given["include_disabled"].(type) {
	case nil:
	case bool:
		found.IncludeDisabled = value
	default:
		return Arguments{}, &InvalidArgument{"`include_disabled` must be true or false, and is " + kindOf(value)}
	}
	if value := given["limit"]; value != nil {
		limit, err := checkLimit(value)
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

func checkLimit(value any) (int, error) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, &InvalidArgument{limitError(kindOf(value))}
	}
	// Out of the range of a double, the value is an infinity, and the error says no more.
	limit, _ := strconv.ParseFloat(number.String(), 64)
	whole := limit == math.Trunc(limit)
	switch {
	case whole && 1 <= limit && limit <= MaxLimit:
		return int(limit), nil
	case math.Abs(limit) >= 1e9:
		return 0, &InvalidArgument{limitError("a number")}
	case !whole:
		return 0, &InvalidArgument{limitError("a fraction")}
	}
	return 0, &InvalidArgument{limitError(strconv.Itoa(int(limit)))}
}

func limitError(found string) string {
	return fmt.Sprintf("`limit` must be a whole number from 1 to %d, and is %s", MaxLimit, found)
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
