package connector

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// The keys by which a host tells what may be reached, which no user sets.
const (
	foldersKey = "reach.folders"
	hostsKey   = "reach.hosts"
)

// linksMost bounds the links of a name that are followed, as the kernel bounds them.
const linksMost = 40

// Reach is the folders and hosts that a node lets a connector reach; the zero value is any. A
// configuration with a field of this type promises to keep to it, and is a Reacher: it compares what
// it names, and the connector what it meets later, before it is opened.
type Reach struct {
	folders, hosts bounds
}

// Reacher is a configuration that has a field of the type Reach.
type Reacher interface {
	// RequireReach returns an error for what the configuration names and is outside. It is called
	// whenever a configuration was read.
	RequireReach() error
}

// bounds are what may be reached; bounded is false for any.
type bounds struct {
	bounded bool
	allowed []string
}

func boundsOf(given map[string]string, key string) bounds {
	text, found := given[key]
	if !found {
		return bounds{}
	}
	made := bounds{bounded: true}
	for _, one := range strings.Split(text, ",") {
		switch one = strings.TrimSpace(one); one {
		case "":
		case "*":
			return bounds{}
		default:
			made.allowed = append(made.allowed, one)
		}
	}
	return made
}

func reachOf(given map[string]string) Reach {
	return Reach{boundsOf(given, foldersKey), boundsOf(given, hostsKey)}
}

// RequirePath returns an error of ClassConfig for a file or folder outside, with all links in its
// name followed; key is the one that names it.
func (r Reach) RequirePath(path, key string) error {
	if !r.folders.bounded || path == "" {
		return nil
	}
	resolved, err := realPath(path)
	inside := func(folder string) bool {
		if strings.Contains(folder, "://") {
			return false
		}
		folder, err := realPath(folder)
		return err == nil && isInside(resolved, folder)
	}
	if err == nil && slices.ContainsFunc(r.folders.allowed, inside) {
		return nil
	}
	return outside("reach.folder", path+" is not inside the folders", "its folder", "folders", key)
}

// RequireOpened returns an error for a file outside, whatever its name was when it was opened.
func (r Reach) RequireOpened(file *os.File, key string) error {
	if !r.folders.bounded {
		return nil
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return err
	}
	return r.RequirePath(name, key)
}

// RequireHost returns an error of ClassConfig for a host that may not be named. A network counts for
// addresses, not for names.
func (r Reach) RequireHost(host, key string) error {
	named := func(allowed string) bool { return isHost(host, allowed) }
	if !r.hosts.bounded || slices.ContainsFunc(r.hosts.allowed, named) {
		return nil
	}
	return outside("reach.host", host+" is not among the hosts", "it", "hosts", key)
}

func outside(code, what, added, dimension, key string) error {
	return ConfigErrorf(code, "%s that this connector may reach", what).
		WithFix("Name another, or have %s added to `reach.<rule>.%s` of the workers.", added, dimension).
		At(key)
}

func isInside(resolved, folder string) bool {
	// a folder of links into other processes: nothing in it is inside of another folder
	if strings.HasPrefix(resolved, "/proc/") && !strings.HasPrefix(folder, "/proc") {
		return false
	}
	return resolved == folder || strings.HasPrefix(resolved, strings.TrimSuffix(folder, "/")+"/")
}

// realPath follows all links of a name; what is not there is taken as it is written.
func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = here + "/" + path // not joined, which would take `..` away before links are followed
	}
	resolved, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(resolved, name)
		target, err := os.Readlink(next)
		if name == ".." || err != nil {
			resolved = next
			continue
		}
		if links++; links > linksMost {
			return "", fmt.Errorf("%s has too many links", path)
		}
		if filepath.IsAbs(target) {
			resolved = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return resolved, nil
}

func isHost(host, allowed string) bool {
	host, allowed = strings.ToLower(strings.TrimSuffix(host, ".")), strings.ToLower(allowed)
	if below, wildcard := strings.CutPrefix(allowed, "*"); wildcard && strings.HasPrefix(below, ".") {
		return strings.HasSuffix(host, below)
	}
	bare, _, _ := strings.Cut(strings.Trim(host, "[]"), "%")
	address, err := netip.ParseAddr(bare)
	if err != nil {
		return host == allowed
	}
	if network, err := netip.ParsePrefix(allowed); err == nil {
		return network.Contains(address)
	}
	one, err := netip.ParseAddr(allowed)
	return err == nil && one == address
}

// reachField returns the index of the field of a configuration that takes what may be reached; -1:
// there is none.
func reachField(config reflect.Type) (int, *Error) {
	if config.Kind() != reflect.Struct {
		return -1, nil
	}
	for at := range config.NumField() {
		if field := config.Field(at); field.IsExported() && field.Type == reflect.TypeFor[Reach]() {
			if !config.Implements(reflect.TypeFor[Reacher]()) {
				return -1, Defectf("config.reach_not_compared",
					"%s has what may be reached, and never compares with it", config).
					WithFix("Give it a method RequireReach() error.")
			}
			return at, nil
		}
	}
	return -1, nil
}

// reached fills what may be reached into a configuration that was read, and compares.
func (k *kind) reached(config reflect.Value, given map[string]string) error {
	if k.reach < 0 {
		return nil
	}
	config.Field(k.reach).Set(reflect.ValueOf(reachOf(given)))
	return config.Interface().(Reacher).RequireReach()
}

// withoutReach returns what a user gave.
func withoutReach(given map[string]string) map[string]string {
	own := make(map[string]string, len(given))
	for name, value := range given {
		if name != foldersKey && name != hostsKey {
			own[name] = value
		}
	}
	return own
}
