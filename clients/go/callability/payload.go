package callability

import "fmt"

// maxMessages bounds the memory that a small bundle can ask for: an empty message costs two bytes on the wire.
const maxMessages = 1 << 20

type reader struct{ messages int }

func readPayload(encoded []byte) (*payload, error) {
	var r reader
	var p payload
	err := eachField(encoded, func(f wireField) error {
		switch f.number {
		case 1:
			return f.text(&p.revision)
		case 2:
			return f.number64(&p.semantics)
		case 3:
			return f.number64(&p.sequence)
		case 4:
			return message(&r, f, &p.actions, (*reader).action, action{})
		case 5:
			return message(&r, f, &p.ruleSets, (*reader).ruleSet, ruleSet{open: absent})
		case 6:
			return single(f, ruleFile)
		}
		return nil
	})
	return &p, err
}

// message reads one more message of a repeated field.
func message[T any](r *reader, f wireField, into *[]T, field func(*reader, *T, wireField) error, empty T) error {
	if err := f.wanted(wireBytes); err != nil {
		return err
	}
	if r.messages++; r.messages > maxMessages {
		return fmt.Errorf("found more than %d messages", maxMessages)
	}
	err := eachField(f.bytes, func(inner wireField) error { return field(r, &empty, inner) })
	*into = append(*into, empty)
	return err
}

// ruleFile checks that a rule file is well-formed: only a service, which proves the policy from it, needs its content.
func ruleFile(f wireField) error {
	var name string
	switch f.number {
	case 1:
		return f.text(&name)
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
		return message(r, f, &s.facts, (*reader).fact, fact{})
	case 3:
		return message(r, f, &s.statuses, (*reader).status, status{})
	case 4:
		return f.number31(&s.undetermined)
	case 5:
		return f.number31(&s.open)
	case 6:
		return message(r, f, &s.parts, (*reader).part, part{})
	case 7:
		return message(r, f, &s.rules, (*reader).rule, rule{condition: absent})
	case 8:
		return message(r, f, &s.laws, (*reader).law, law{condition: absent})
	case 9:
		return f.texts(&s.textNames)
	case 10:
		return message(r, f, &s.words, (*reader).statusWords, statusWords{})
	case 11:
		return message(r, f, &s.axes, (*reader).axis, axis{})
	case 12:
		return message(r, f, &s.verdicts, (*reader).verdict, verdict{})
	case 13:
		return single(f, s.diagram.field)
	case 14:
		return single(f, s.unread.field)
	case 15:
		return message(r, f, &s.unreadStarts, (*reader).unreadStart, unreadStart{})
	case 16:
		return single(f, s.counts.field)
	case 17:
		return f.numbers(&s.listedFacts)
	}
	return nil
}

func single(f wireField, field func(wireField) error) error {
	if err := f.wanted(wireBytes); err != nil {
		return err
	}
	return eachField(f.bytes, field)
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
		return f.texts(&t.values)
	case 6:
		return f.number31(&t.defaultValue)
	case 7:
		return f.flag(&t.asserted)
	case 9:
		return f.flag(&t.alwaysStays)
	case 10:
		return f.number31(&t.changedBy)
	case 11:
		return f.text(&t.action)
	case 12:
		return message(r, f, &t.groups, (*reader).patternGroup, nil)
	case 13:
		return message(r, f, &t.classes, (*reader).nameClass, nil)
	case 14:
		return f.flag(&t.anyValue)
	}
	return nil
}

func (r *reader) patternGroup(patterns *[]string, f wireField) error {
	if f.number == 1 {
		return f.texts(patterns)
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
	case 6:
		return f.texts(&t.words)
	}
	return nil
}

func (r *reader) law(t *law, f wireField) error {
	switch f.number {
	case 2:
		return f.number31(&t.condition)
	case 3:
		return f.numbers(&t.statuses)
	}
	return nil
}

func (r *reader) statusWords(w *statusWords, f wireField) error {
	switch f.number {
	case 1:
		return f.number31(&w.status)
	case 2:
		return f.texts(&w.texts)
	}
	return nil
}

func (r *reader) axis(a *axis, f wireField) error {
	switch f.number {
	case 1:
		return f.numbers(&a.facts)
	case 2:
		return f.numbers(&a.readings)
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

func (d *diagram) field(f wireField) error {
	switch f.number {
	case 1:
		return f.numbers(&d.places)
	case 2:
		return f.numbers(&d.children)
	}
	return nil
}

func (c *counts) field(f wireField) error {
	switch f.number {
	case 1:
		return f.text(&c.combinations)
	case 2:
		return f.text(&c.regions)
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
