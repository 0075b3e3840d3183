package connector

import (
	"context"
	"reflect"
	"time"

	connectorv1 "penstock/go/api/connector/v1"
)

// Connector is a SourceSpec, SinkSpec or TransactionalSpec.
type Connector interface {
	kind() *kind
}

// source is a Source without the type of its configuration.
type source interface {
	Connect(ctx context.Context, partitions []Partition) error
	ReadBatch(ctx context.Context) (*Batch, error)
	Close() error
}

// transactional is a TransactionalSink without the type of its configuration.
type transactional interface {
	Connect(ctx context.Context, taskID string, epoch uint64) error
	Stage(part Part) (Staging, error)
	Prepare(txn Txn) ([]byte, error)
	Commit(txnID, epoch uint64, state []byte) error
	Close() error
}

// kind is a connector without the type of its configuration.
type kind struct {
	name, title, description string
	aliases                  []string
	isSource                 bool
	reach                    int // the index of the field of the type Reach; -1: there is none
	keys                     []configKey
	broken                   *Error
	source                   *connectorv1.SourceCapabilities
	modes                    []CommitMode
	commitEvery, lookEvery   time.Duration

	read      func(given map[string]string) (any, []*Error)
	validate  func(config any) []*Error
	hints     func(values map[string]string) map[string]KeyHint // nil: none
	check     func(ctx context.Context, config any) error
	plan      func(config any, maxTasks int, known []Partition) ([]Partition, error)
	alter     func(config any, partitions []Partition, dryRun bool) ([]Partition, error)
	apply     applies
	parse     parses // nil: it cannot
	monitored func(config any, maxTasks int) bool
	monitor   func(config any, monitor *Monitor) error
	newSource func(config any) (source, func() error)
	newSink   func(config any) (transactional, func() error)
}

// newKind returns what all kinds of connectors have in common.
func newKind[C any](
	name, title, description string, aliases []string,
	validate func(C) []*Error, check func(context.Context, C) error,
	alter func(C, []Partition, bool) ([]Partition, error),
) *kind {
	made := &kind{name: name, title: title, description: description, aliases: aliases}
	made.keys, made.broken = schemaOf(reflect.TypeFor[C]())
	if made.broken == nil {
		made.reach, made.broken = reachField(reflect.TypeFor[C]())
	}
	made.read = func(given map[string]string) (any, []*Error) {
		var config C
		value := reflect.ValueOf(&config).Elem()
		own := given
		if made.reach >= 0 {
			own = withoutReach(given)
		}
		errs := readConfig(value, made.keys, own)
		if len(errs) == 0 {
			if err := guard(name+".RequireReach", func() error { return made.reached(value, given) }); err != nil {
				errs = append(errs, err)
			}
		}
		return config, errs
	}
	made.validate = func(config any) []*Error {
		if validate == nil {
			return nil
		}
		return validate(config.(C))
	}
	made.check = func(ctx context.Context, config any) error {
		if check == nil {
			return nil
		}
		return check(ctx, config.(C))
	}
	if alter != nil {
		made.alter = func(config any, partitions []Partition, dryRun bool) ([]Partition, error) {
			return alter(config.(C), partitions, dryRun)
		}
	}
	return made
}

// configure returns the typed configuration of a target; extra is the task's own part of it.
func (k *kind) configure(target *connectorv1.Target, extra map[string]string) (any, error) {
	given := make(map[string]string, len(target.GetConfig())+len(target.GetSecrets())+len(extra))
	for _, part := range []map[string]string{target.GetConfig(), target.GetSecrets(), extra} {
		for name, value := range part {
			given[name] = value
		}
	}
	config, errs := k.read(given)
	return config, firstOf(errs)
}

// spec returns the description of a connector; it needs no configuration.
func (k *kind) spec() *connectorv1.ConnectorSpec {
	spec := &connectorv1.ConnectorSpec{
		Name: k.name, Kind: connectorv1.Kind_KIND_SINK, Title: k.title, Description: k.description,
		Aliases:       k.aliases,
		EnforcesReach: k.reach >= 0,
	}
	for order, key := range k.keys {
		spec.ConfigKeys = append(spec.ConfigKeys, key.toProto(order))
	}
	if k.isSource {
		spec.Kind = connectorv1.Kind_KIND_SOURCE
		spec.Source = k.source
		return spec
	}
	spec.Sink = &connectorv1.SinkCapabilities{
		CommitModes: k.protoModes(), AlterOffsets: k.alter != nil,
	}
	return spec
}

func (k *kind) protoModes() []connectorv1.CommitMode {
	modes := make([]connectorv1.CommitMode, 0, len(k.modes))
	for _, mode := range k.modes {
		modes = append(modes, connectorv1.CommitMode(mode))
	}
	return modes
}

// connectors are what a plugin serves, by name and alias.
type connectors struct {
	all    []*kind
	byName map[string]*kind
}

func newConnectors(given []Connector) (*connectors, error) {
	made := &connectors{byName: map[string]*kind{}}
	for _, one := range given {
		kind := one.kind()
		if kind.broken != nil {
			return nil, kind.broken
		}
		made.all = append(made.all, kind)
		for _, name := range append([]string{kind.name}, kind.aliases...) {
			if name == "" {
				return nil, Defectf("plugin.unnamed", "a connector has no name").WithFix("Set Name.")
			}
			if made.byName[name] != nil {
				return nil, Defectf("plugin.name_taken", "two connectors are both %q", name)
			}
			made.byName[name] = kind
		}
	}
	return made, nil
}

// find returns the connector with this name or alias; wanted tells which may be.
func (c *connectors) find(name string, wanted func(*kind) bool) (*kind, error) {
	if found := c.byName[name]; found != nil && wanted(found) {
		return found, nil
	}
	var valid []string
	for other, kind := range c.byName {
		if wanted(kind) {
			valid = append(valid, other)
		}
	}
	return nil, ConfigErrorf("plugin.unknown_connector",
		"there is no connector '%s' of this kind in the plugin", name).
		WithFix("%s", nearestFix(name, valid, "connectors")).At("connector.class")
}

func anyKind(*kind) bool      { return true }
func sources(kind *kind) bool { return kind.isSource }
func sinksOf(kind *kind) bool { return !kind.isSource }
