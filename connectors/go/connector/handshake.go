package connector

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	cookieKey        = "PENSTOCK_PLUGIN_MAGIC_COOKIE"
	nonceKey         = "PENSTOCK_INSTANCE_NONCE"
	versionsKey      = "PLUGIN_PROTOCOL_VERSIONS"
	socketDirKey     = "PLUGIN_UNIX_SOCKET_DIR"
	handshakeFileKey = "PENSTOCK_HANDSHAKE_FILE"

	coreVersion     = 1 // of the handshake line, as go-plugin has it
	protocolVersion = "1"
)

// launch is what the host told the process that it started.
type launch struct {
	socket        string
	credential    string
	handshakeFile string
}

// launchFrom returns what the host said; nil when no host started this process.
func launchFrom(getenv func(string) string) (*launch, error) {
	if getenv(cookieKey) == "" {
		return nil, nil
	}
	versions := strings.ReplaceAll(getenv(versionsKey), " ", "")
	if versions != "" && !slices.Contains(strings.Split(versions, ","), protocolVersion) {
		return nil, ConfigErrorf("plugin.protocol_version",
			"the host speaks protocol versions %s, this plugin speaks %s", versions, protocolVersion).
			WithFix("Use a host and a plugin of the same protocol version.")
	}
	credential := getenv(nonceKey)
	if credential == "" {
		return nil, ConfigErrorf("plugin.no_credential",
			"the host set no %s: callers could not be told apart", nonceKey).
			WithFix("Start plugins with a host that gives every launch its own credential.")
	}
	folder := getenv(socketDirKey)
	if folder == "" {
		made, err := os.MkdirTemp("", "penstock-")
		if err != nil {
			return nil, err
		}
		folder = made
	}
	return &launch{
		socket:        filepath.Join(folder, fmt.Sprintf("s%d", os.Getpid())),
		credential:    credential,
		handshakeFile: getenv(handshakeFileKey),
	}, nil
}

// announce prints the line once, or writes it to the file that the host named.
func (l *launch) announce() error {
	line := fmt.Sprintf("%d|%s|unix|%s|grpc|\n", coreVersion, protocolVersion, l.socket)
	if l.handshakeFile == "" {
		_, err := os.Stdout.WriteString(line)
		return err
	}
	// By rename, so that the host never reads half a line.
	unfinished := fmt.Sprintf("%s.%d", l.handshakeFile, os.Getpid())
	if err := os.WriteFile(unfinished, []byte(line), 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, l.handshakeFile)
}
