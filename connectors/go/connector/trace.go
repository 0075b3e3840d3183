package connector

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// traceParentKey is the metadata key of the trace that a call is a part of, as the W3C names it.
const traceParentKey = "traceparent"

type traceKey struct{}

// TraceParent returns the trace that the host's call is a part of, as the W3C's `traceparent`
// writes it; "" when there is none. What a connector sends on with it, to a database or a server,
// is seen in the trace of the micro-batch that wrote the rows, or of the request that checked.
func TraceParent(ctx context.Context) string {
	if parent, found := ctx.Value(traceKey{}).(string); found {
		return parent
	}
	given, _ := metadata.FromIncomingContext(ctx)
	if parents := given.Get(traceParentKey); len(parents) == 1 {
		return parents[0]
	}
	return ""
}

func withTrace(ctx context.Context, parent string) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}
