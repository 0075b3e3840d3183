package connector

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// endGrace is the time that tasks get to end when the host is gone. Longer keeps an orphan alive;
// shorter cuts a commit that was about to be made.
const endGrace = 10 * time.Second

// Plugin says what the process is.
type Plugin struct {
	// Name of the plugin; the name of the program when empty.
	Name string
	// Version is a semantic version.
	Version string
}

// Serve serves connectors until the host ends: the main of a plugin. It does not return.
//
// A host starts the process and finds it by its handshake. By hand, --listen HOST:PORT serves
// without a host and without a credential, for grpcurl and debuggers.
func Serve(plugin Plugin, given ...Connector) {
	if plugin.Name == "" {
		plugin.Name = filepath.Base(os.Args[0])
	}
	if plugin.Version == "" {
		plugin.Version = "0.0.0"
	}
	if err := serve(plugin, given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // a goroutine of an author that hangs must not keep the process
}

func serve(plugin Plugin, given []Connector) error {
	flags := flag.NewFlagSet(plugin.Name, flag.ExitOnError)
	listen := flags.String("listen", "", "serve at this HOST:PORT, without a host")
	_ = flags.Parse(os.Args[1:]) // it exits on errors
	all, err := newConnectors(given)
	if err != nil {
		return fmt.Errorf("%s: %w", plugin.Name, err)
	}
	if *listen != "" {
		return serveAt(plugin, all, *listen)
	}
	launched, err := launchFrom(os.Getenv)
	if err != nil {
		return fmt.Errorf("%s: %w", plugin.Name, err)
	}
	if launched == nil {
		return fmt.Errorf("%s", howToRun(plugin, all))
	}
	return serveHost(plugin, all, launched)
}

// serveHost serves the host that started the process, until it is gone.
func serveHost(plugin Plugin, all *connectors, launched *launch) error {
	slog.SetDefault(newLogger(os.Stderr, plugin.Name))
	listener, err := net.Listen("unix", launched.socket)
	if err != nil {
		return fmt.Errorf("%s: %w", plugin.Name, err)
	}
	server := newServer(plugin, all, launched.credential)
	signal.Ignore(syscall.SIGINT, syscall.SIGPIPE) // Ctrl-C is the host's, and a full log no reason to die
	endOnSignals(server, syscall.SIGTERM)
	go endWithHost(server)
	return run(server, listener, launched.announce)
}

// serveAt serves whoever calls: for people.
func serveAt(plugin Plugin, all *connectors, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", plugin.Name, err)
	}
	server := newServer(plugin, all, "")
	endOnSignals(server, syscall.SIGTERM, syscall.SIGINT)
	return run(server, listener, func() error {
		_, err := fmt.Printf("%s listens on %s\n", plugin.Name, listener.Addr())
		return err
	})
}

func run(server *server, listener net.Listener, announce func() error) error {
	served := make(chan error, 1)
	go func() { served <- server.grpc.Serve(listener) }()
	if err := announce(); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-server.ending.Done():
	}
	server.drain(endGrace)
	server.stop()
	return nil
}

func endOnSignals(server *server, signals ...os.Signal) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		<-came
		server.end()
	}()
}

// endWithHost ends the process with its host, which holds the other end of stdin: its end of file
// means that the host is gone.
func endWithHost(server *server) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	slog.Info("the host closed stdin: ending")
	server.end()
}

func howToRun(plugin Plugin, all *connectors) string {
	kinds := []string{}
	for _, kind := range all.all {
		what := "sink"
		if kind.isSource {
			what = "source"
		}
		kinds = append(kinds, fmt.Sprintf("%s (%s)", kind.name, what))
	}
	if len(kinds) == 0 {
		kinds = []string{"no connectors"}
	}
	return fmt.Sprintf(`%s is a Penstock plugin with %s.
A host starts it: install its manifest and name the connector in a configuration.
To try it by hand:  %s --listen 127.0.0.1:9000
(%s is not set, so no host started this process.)`,
		plugin.Name, strings.Join(kinds, ", "), strings.Join(os.Args, " "), cookieKey)
}
