package callability

import "context"

// Hooks receive what a [PolicyStore], an Inventory and a client report about themselves. Each may be nil; the zero Hooks
// report nothing. They are called from several goroutines, must not block, and receive no name of a tool, a server or an
// agent, nor any text of theirs.
type Hooks struct {
	Logger  Logger
	Metrics Metrics
	Tracer  Tracer
}

// A Logger takes events, such as `policy_accepted`, with pairs of key and value. A *slog.Logger is one.
type Logger interface {
	InfoContext(ctx context.Context, event string, pairs ...any)
	WarnContext(ctx context.Context, event string, pairs ...any)
	ErrorContext(ctx context.Context, event string, pairs ...any)
}

// Metrics take figures.
type Metrics interface {
	// Measure takes a figure: an increment if its name ends in `_total`, a duration in seconds to observe if it ends in
	// `_call_seconds`, and otherwise the current value. Labels are pairs of label and value.
	Measure(name string, value float64, labels ...string)
}

// A Tracer begins spans.
type Tracer interface {
	// Start begins a span, and returns the context in which its call is made and what ends it. The context may carry
	// metadata to send with the call, such as `traceparent`.
	Start(ctx context.Context, name string) (context.Context, func(error))
}

// Info reports an event that an operator may want to know.
func (h Hooks) Info(ctx context.Context, event string, pairs ...any) {
	if h.Logger != nil {
		h.Logger.InfoContext(ctx, event, pairs...)
	}
}

// Warn reports an event that may need attention.
func (h Hooks) Warn(ctx context.Context, event string, pairs ...any) {
	if h.Logger != nil {
		h.Logger.WarnContext(ctx, event, pairs...)
	}
}

// Error reports an event that needs attention.
func (h Hooks) Error(ctx context.Context, event string, pairs ...any) {
	if h.Logger != nil {
		h.Logger.ErrorContext(ctx, event, pairs...)
	}
}

// Measure reports a figure.
func (h Hooks) Measure(name string, value float64, labels ...string) {
	if h.Metrics != nil {
		h.Metrics.Measure(name, value, labels...)
	}
}

// Start begins a span. Without a Tracer, it does nothing.
func (h Hooks) Start(ctx context.Context, name string) (context.Context, func(error)) {
	if h.Tracer == nil {
		return ctx, func(error) {}
	}
	return h.Tracer.Start(ctx, name)
}
