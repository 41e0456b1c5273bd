package callability

import "fmt"

// What the parts of a payload may cost a reader in bytes of memory, so that a small bundle cannot ask for much: an empty
// message takes two bytes on the wire. docs/bundle.md has the numbers for all readers.
const (
	costOfByte    = 40
	freeCost      = 1 << 20
	costOfMessage = 640
	costOfSmall   = 320
	costOfText    = 224
	costOfNumber  = 256
)

// A reader of a payload, and what its parts may still cost.
type reader struct{ left int }

func (r *reader) spend(cost int) error {
	if r.left -= cost; r.left < 0 {
		return fmt.Errorf("found too many parts for the size of the payload")
	}
	return nil
}

func readPayload(encoded []byte) (*payload, error) {
	r := reader{freeCost + costOfByte*len(encoded)}
	var p payload
	err := eachField(encoded, func(f wireField) error {
		switch f.number {
		case 1:
			return f.text(&p.revision)
		case 2:
			return f.number31(&p.semantics)
		case 3:
			return f.number64(&p.sequence)
		case 4:
			return message(&r, f, &p.actions, costOfMessage, (*reader).action, action{})
		case 5:
			return message(&r, f, &p.ruleSets, costOfMessage, (*reader).ruleSet, ruleSet{open: absent})
		case 6:
			return r.single(f, ruleFile)
		}
		return nil
	})
	return &p, err
}

// message reads one more message of a repeated field. The first makes room for all.
func message[T any](
	r *reader, f wireField, into *[]T, cost int, field func(*reader, *T, wireField) error, empty T,
) error {
	if err := r.spend(cost); err != nil {
		return err
	}
	if err := makeRoom(r, f, into, cost); err != nil {
		return err
	}
	*into = append(*into, empty)
	found := &(*into)[len(*into)-1]
	return single(f, func(inner wireField) error { return field(r, found, inner) })
}

// makeRoom makes room in an empty list for a field and all that are alike, which must not cost more than is left.
func makeRoom[T any](r *reader, f wireField, into *[]T, cost int) error {
	if *into != nil {
		return nil
	}
	alike := f.alike()
	if r.left < (alike-1)*cost {
		return r.spend((alike - 1) * cost)
	}
	*into = make([]T, 0, alike)
	return nil
}

func (r *reader) texts(f wireField, into *[]string) error {
	if err := r.spend(costOfText); err != nil {
		return err
	}
	if err := makeRoom(r, f, into, costOfText); err != nil {
		return err
	}
	var text string
	if err := f.text(&text); err != nil {
		return err
	}
	*into = append(*into, text)
	return nil
}

// costly reads a repeated number, each of which costs more than its bytes.
func (r *reader) costly(f wireField, into *[]int32, cost int) error {
	count := 1
	if f.kind == wireBytes {
		count = packedNumbers(f.bytes)
	}
	if err := r.spend(count * cost); err != nil {
		return err
	}
	return f.numbers(into)
}

// single reads a message that is no item of a list.
func (r *reader) single(f wireField, field func(wireField) error) error {
	if err := r.spend(costOfMessage); err != nil {
		return err
	}
	return single(f, field)
}

func single(f wireField, field func(wireField) error) error {
	if err := f.wanted(wireBytes); err != nil {
		return err
	}
	return eachField(f.bytes, field)
}

// ruleFile checks that a rule file is well-formed: only a service, which proves the policy from it, needs its content.
func ruleFile(f wireField) error {
	switch f.number {
	case 1:
		return f.unreadText()
	case 2:
		return f.wanted(wireBytes)
	}
	return nil
}

func (r *reader) action(a *action, f wireField) error {
	switch f.number {
	case 1:
		return f.text(&a.name)
	case 2:
		return f.number31(&a.owner)
	case 3:
		return f.text(&a.fact)
	case 4:
		return f.text(&a.phrase)
	case 5:
		return f.flag(&a.labels)
	}
	return nil
}

func (r *reader) ruleSet(s *ruleSet, f wireField) error {
	switch f.number {
	case 1:
		return f.text(&s.question)
	case 2:
		return message(r, f, &s.facts, costOfMessage, (*reader).fact, fact{})
	case 3:
		return message(r, f, &s.statuses, costOfMessage, (*reader).status, status{})
	case 4:
		return f.number31(&s.undetermined)
	case 5:
		return f.number31(&s.open)
	case 6:
		return message(r, f, &s.parts, costOfSmall, (*reader).part, part{})
	case 7:
		return message(r, f, &s.rules, costOfMessage, (*reader).rule, rule{condition: absent})
	case 8:
		return message(r, f, &s.laws, costOfMessage, (*reader).law, law{condition: absent})
	case 9:
		return r.texts(f, &s.textNames)
	case 10:
		return message(r, f, &s.words, costOfMessage, (*reader).statusWords, statusWords{})
	case 11:
		return message(r, f, &s.axes, costOfMessage, (*reader).axis, axis{})
	case 12:
		return message(r, f, &s.verdicts, costOfSmall, (*reader).verdict, verdict{})
	case 13:
		return r.single(f, r.diagram(&s.diagram))
	case 14:
		return r.single(f, r.diagram(&s.unread))
	case 15:
		return message(r, f, &s.unreadStarts, costOfSmall, (*reader).unreadStart, unreadStart{})
	case 16:
		return r.single(f, s.counts.field)
	case 17:
		return f.numbers(&s.listedFacts)
	}
	return nil
}

func (r *reader) fact(t *fact, f wireField) error {
	switch f.number {
	case 1:
		return f.text(&t.name)
	case 2:
		return f.number31(&t.kind)
	case 3:
		return f.number31(&t.subject)
	case 4:
		return f.text(&t.key)
	case 5:
		return r.texts(f, &t.values)
	case 6:
		return f.number31(&t.defaultValue)
	case 7:
		return f.flag(&t.asserted)
	case 8:
		return f.wanted(wireVarint)
	case 9:
		return f.flag(&t.alwaysStays)
	case 10:
		return f.number31(&t.changedBy)
	case 11:
		return f.text(&t.action)
	case 12:
		return message(r, f, &t.groups, costOfSmall, (*reader).patternGroup, nil)
	case 13:
		return message(r, f, &t.classes, costOfSmall, (*reader).nameClass, nil)
	case 14:
		return f.flag(&t.anyValue)
	}
	return nil
}

func (r *reader) patternGroup(patterns *[]string, f wireField) error {
	if f.number == 1 {
		return r.texts(f, patterns)
	}
	return nil
}

func (r *reader) nameClass(groups *[]int32, f wireField) error {
	if f.number == 1 {
		return f.numbers(groups)
	}
	return nil
}

func (r *reader) status(s *status, f wireField) error {
	switch f.number {
	case 1:
		return f.text(&s.name)
	case 2:
		return f.number31(&s.number)
	case 3:
		return f.number31(&s.liftedBy)
	case 4:
		return f.number31(&s.retry)
	case 5:
		return f.flag(&s.failed)
	case 6:
		return f.number31(&s.entry)
	case 7:
		return f.number31(&s.toolsChanged)
	}
	return nil
}

func (r *reader) part(p *part, f wireField) error {
	switch f.number {
	case 1:
		return f.number31(&p.kind)
	case 2:
		return f.number31(&p.fact)
	case 3:
		return f.numbers(&p.readings)
	case 4:
		if err := r.spend(costOfText); err != nil {
			return err
		}
		return f.unreadText()
	case 5:
		return f.numbers(&p.parts)
	}
	return nil
}

func (r *reader) rule(t *rule, f wireField) error {
	switch f.number {
	case 1:
		return f.text(&t.id)
	case 2:
		return f.number31(&t.condition)
	case 3:
		return f.number31(&t.status)
	case 4, 5:
		return f.unreadNumber()
	case 6:
		return r.texts(f, &t.words)
	}
	return nil
}

func (r *reader) law(t *law, f wireField) error {
	switch f.number {
	case 1:
		return f.unreadText()
	case 2:
		return f.number31(&t.condition)
	case 3:
		return f.numbers(&t.statuses)
	case 4:
		return f.wanted(wireVarint)
	case 5, 6:
		return f.unreadNumber()
	}
	return nil
}

func (r *reader) statusWords(w *statusWords, f wireField) error {
	switch f.number {
	case 1:
		return f.number31(&w.status)
	case 2:
		return r.texts(f, &w.texts)
	}
	return nil
}

func (r *reader) axis(a *axis, f wireField) error {
	switch f.number {
	case 1:
		return f.numbers(&a.facts)
	case 2:
		return r.costly(f, &a.readings, costOfNumber)
	}
	return nil
}

func (r *reader) verdict(v *verdict, f wireField) error {
	switch f.number {
	case 1:
		return f.number31(&v.status)
	case 2:
		return f.number31(&v.rule)
	case 3:
		return f.flag(&v.undetermined)
	case 4:
		return f.flag(&v.withhold)
	}
	return nil
}

func (r *reader) diagram(d *diagram) func(wireField) error {
	return func(f wireField) error {
		switch f.number {
		case 1:
			return r.costly(f, &d.places, costOfNumber)
		case 2:
			return f.numbers(&d.children)
		}
		return nil
	}
}

func (c *counts) field(f wireField) error {
	switch f.number {
	case 1:
		return f.text(&c.combinations)
	case 2:
		return f.text(&c.regions)
	case 3, 5, 6:
		return f.wanted(wireVarint)
	case 4:
		return f.text(&c.confirmed)
	}
	return nil
}

func (r *reader) unreadStart(u *unreadStart, f wireField) error {
	switch f.number {
	case 1:
		return f.number31(&u.rule)
	case 2:
		return f.number31(&u.fact)
	case 3:
		return f.number31(&u.start)
	}
	return nil
}
