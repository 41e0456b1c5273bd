package callability

import (
	"bytes"
	"maps"
)

func (f ServerFacts) clone() ServerFacts {
	f.Labels, f.Declared = maps.Clone(f.Labels), maps.Clone(f.Declared)
	return f
}

func (f ToolFacts) clone() ToolFacts {
	f.Labels, f.Declared, f.Annotations = maps.Clone(f.Labels), maps.Clone(f.Declared), f.Annotations.clone()
	return f
}

func (f AgentFacts) clone() AgentFacts {
	f.Labels, f.Declared = maps.Clone(f.Labels), maps.Clone(f.Declared)
	return f
}

func (a *Annotations) clone() *Annotations {
	if a == nil {
		return nil
	}
	return &Annotations{
		ReadOnly: clonePointer(a.ReadOnly), Destructive: clonePointer(a.Destructive), Idempotent: clonePointer(a.Idempotent),
		OpenWorld: clonePointer(a.OpenWorld),
	}
}

func clonePointer[T any](pointer *T) *T {
	if pointer == nil {
		return nil
	}
	value := *pointer
	return &value
}

// equal reports whether facts are the same: nil labels are unknown, and so no others.
func (f ServerFacts) equal(other ServerFacts) bool {
	return f.Enabled == other.Enabled && f.Quarantined == other.Quarantined && equalMaps(f.Labels, other.Labels) &&
		equalMaps(f.Declared, other.Declared)
}

func (f ToolFacts) equal(other ToolFacts) bool {
	return f.ConfigDenied == other.ConfigDenied && f.Approval == other.Approval && f.CallerRefuses == other.CallerRefuses &&
		f.Annotations.equal(other.Annotations) && equalMaps(f.Labels, other.Labels) && equalMaps(f.Declared, other.Declared)
}

func (a *Annotations) equal(other *Annotations) bool {
	if a == nil || other == nil {
		return a == other
	}
	return equalPointers(a.ReadOnly, other.ReadOnly) && equalPointers(a.Destructive, other.Destructive) &&
		equalPointers(a.Idempotent, other.Idempotent) && equalPointers(a.OpenWorld, other.OpenWorld)
}

func (t *ToolText) equal(other *ToolText) bool {
	if t == nil || other == nil {
		return t == other
	}
	return equalPointers(t.Description, other.Description) && equalBytes(t.InputSchema, other.InputSchema) &&
		equalBytes(t.Annotations, other.Annotations)
}

func equalMaps[M ~map[string]string](one, other M) bool {
	return (one == nil) == (other == nil) && maps.Equal(one, other)
}

func equalPointers[T comparable](one, other *T) bool {
	if one == nil || other == nil {
		return one == other
	}
	return *one == *other
}

func equalBytes(one, other []byte) bool {
	return (one == nil) == (other == nil) && bytes.Equal(one, other)
}
