package connector

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	connectorv1 "penstock/go/api/connector/v1"
)

const (
	// ioBytes is the buffer of a connection: larger ones make fewer system calls of large frames,
	// smaller ones save memory per connection.
	ioBytes = 256 << 10
	// flowBytes is how far a sender may run ahead on a stream. Smaller makes large frames wait.
	flowBytes = 4 << 20
	// pingsAtLeast is the time between pings of a host that are taken. The default takes a host
	// that watches its connections for an attack.
	pingsAtLeast = time.Second
)

// server serves connectors from its start until it is drained.
type server struct {
	grpc    *grpc.Server
	health  *health.Server
	reading *reading
	writing *writing
	ending  context.Context
	end     context.CancelFunc
}

func newServer(plugin Plugin, all *connectors, credential string) *server {
	checks := edge{credential}
	s := &server{
		reading: newReading(all), writing: newWriting(all), health: health.NewServer(),
		grpc: grpc.NewServer(
			grpc.UnaryInterceptor(checks.unary), grpc.StreamInterceptor(checks.stream),
			grpc.MaxRecvMsgSize(messageMost), grpc.MaxSendMsgSize(messageMost),
			grpc.ForceServerCodecV2(newCodec()),
			grpc.WriteBufferSize(ioBytes), grpc.ReadBufferSize(ioBytes),
			grpc.InitialWindowSize(flowBytes), grpc.InitialConnWindowSize(4*flowBytes),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
				MinTime: pingsAtLeast, PermitWithoutStream: true,
			}),
		),
	}
	s.ending, s.end = context.WithCancel(context.Background())
	description := &connectorv1.DescribeResponse{Name: plugin.Name, Version: plugin.Version, Sdk: sdkName}
	for _, kind := range all.all {
		description.Connectors = append(description.Connectors, kind.spec())
	}
	process := &pluginService{description: description, shutdown: func(grace time.Duration) {
		s.drain(grace)
		s.end()
	}}
	connectorv1.RegisterPluginServiceServer(s.grpc, process)
	connectorv1.RegisterConnectorServiceServer(s.grpc, &control{connectors: all, ending: s.ending})
	connectorv1.RegisterSourceServiceServer(s.grpc, s.reading)
	connectorv1.RegisterSinkServiceServer(s.grpc, s.writing)
	for service := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(service, healthv1.HealthCheckResponse_SERVING)
	}
	s.health.SetServingStatus("plugin", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// drain takes no new work, and ends all tasks within the grace.
func (s *server) drain(grace time.Duration) {
	s.health.Shutdown()
	var both sync.WaitGroup
	both.Go(func() { s.reading.drain(grace) })
	both.Go(func() { s.writing.drain(grace) })
	both.Wait()
}

// stop closes the server; calls that still run are cut after a moment.
func (s *server) stop() {
	cut := time.AfterFunc(500*time.Millisecond, s.grpc.Stop)
	defer cut.Stop()
	s.grpc.GracefulStop()
}
