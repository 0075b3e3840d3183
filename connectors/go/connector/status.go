package connector

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// credentialKey is the metadata key of the per-launch credential.
	credentialKey = "penstock-credential"
	// diagnosticKey is the trailing metadata key of a failed call's diagnostic.
	diagnosticKey = "penstock-diagnostic-bin"
	openToAll     = "/grpc.health.v1.Health/"
)

var statusOf = map[Class]codes.Code{
	ClassRetriable:  codes.Unavailable,
	ClassConfig:     codes.InvalidArgument,
	ClassAuth:       codes.PermissionDenied,
	ClassData:       codes.InvalidArgument,
	ClassSchema:     codes.FailedPrecondition,
	ClassFenced:     codes.Aborted,
	ClassOffsetLost: codes.OutOfRange,
}

// edge is between gRPC and everything else: how a call fails, and who may call. It is the one
// place where a status is built, and where a panic in a call ends: it must not end the process,
// which has other tasks.
type edge struct {
	// credential is what callers must send; empty lets everybody call.
	credential string
}

func (e edge) unary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (response any, err error) {
	if refused := e.refused(ctx, info.FullMethod); refused != nil {
		return nil, fail(codes.Unauthenticated, refused, trailerOf(ctx))
	}
	panicked := guard(info.FullMethod, func() error {
		response, err = handler(ctx, request)
		return nil
	})
	if panicked != nil {
		return nil, failed(panicked, trailerOf(ctx))
	}
	return response, failed(err, trailerOf(ctx))
}

func (e edge) stream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	if refused := e.refused(stream.Context(), info.FullMethod); refused != nil {
		return fail(codes.Unauthenticated, refused, stream.SetTrailer)
	}
	var err error
	panicked := guard(info.FullMethod, func() error {
		err = handler(server, stream)
		return nil
	})
	if panicked != nil {
		return failed(panicked, stream.SetTrailer)
	}
	return failed(err, stream.SetTrailer)
}

func (e edge) refused(ctx context.Context, method string) *Error {
	if e.credential == "" || strings.HasPrefix(method, openToAll) {
		return nil
	}
	given, _ := metadata.FromIncomingContext(ctx)
	for _, value := range given.Get(credentialKey) {
		if subtle.ConstantTimeCompare([]byte(value), []byte(e.credential)) == 1 {
			return nil
		}
	}
	return AuthErrorf("plugin.credential_refused",
		"the call does not carry the credential of this plugin's launch",
	).WithFix("Only the host that started the plugin may call it; use --listen to debug.")
}

func trailerOf(ctx context.Context) func(metadata.MD) {
	return func(trailer metadata.MD) { _ = grpc.SetTrailer(ctx, trailer) }
}

func failed(err error, trail func(metadata.MD)) error {
	var known *Error
	if !errors.As(err, &known) {
		return err
	}
	code, found := statusOf[known.Class]
	if !found {
		code = codes.Internal
	}
	return fail(code, known, trail)
}

func fail(code codes.Code, failure *Error, trail func(metadata.MD)) error {
	if encoded, err := proto.Marshal(failure.diagnostic()); err == nil {
		trail(metadata.Pairs(diagnosticKey, string(encoded)))
	}
	return status.Error(code, fmt.Sprintf("[%s] %s", failure.Code, cutText(failure.Message, 500)))
}
