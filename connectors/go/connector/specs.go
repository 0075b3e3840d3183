package connector

import (
	connectorv1 "penstock/go/api/connector/v1"
)

func (s SourceSpec[C]) kind() *kind {
	made := newKind(s.Name, s.Title, s.Description, s.Aliases, s.Validate, s.Check, s.AlterOffsets)
	made.hints = s.KeyHints
	made.apply = appliesOf(s.Apply)
	made.parse = parsesOf(s.ParseRows)
	made.isSource = true
	made.lookEvery = s.MonitorEvery
	_, acks := any(s.New()).(Acker)
	made.source = &connectorv1.SourceCapabilities{
		Replayable: !s.NotReplayable, NeedsCommit: s.NeedsCommit || acks, Bounded: s.Bounded,
		AlterOffsets: s.AlterOffsets != nil,
	}
	made.newSource = func(config any) (source, func() error) {
		one := s.New()
		return one, func() error { return one.Init(config.(C)) }
	}
	made.plan = func(config any, maxTasks int, known []Partition) ([]Partition, error) {
		if s.Plan == nil {
			return []Partition{{Key: Fields{"source": s.Name}, Bounded: s.Bounded}}, nil
		}
		return s.Plan(config.(C), maxTasks, known)
	}
	made.monitored = func(config any, maxTasks int) bool {
		if s.Monitored == nil {
			return s.MonitorEvery > 0 || s.Monitor != nil
		}
		return s.Monitored(config.(C), maxTasks)
	}
	made.monitor = func(config any, monitor *Monitor) error {
		if s.Monitor == nil {
			return made.watchPlan(config, monitor)
		}
		return s.Monitor(config.(C), monitor)
	}
	return made
}

func (s SinkSpec[C]) kind() *kind {
	made := newKind(s.Name, s.Title, s.Description, s.Aliases, s.Validate, s.Check, s.AlterOffsets)
	made.hints = s.KeyHints
	made.apply = appliesOf(s.Apply)
	made.modes = []CommitMode{CommitHost}
	if s.Idempotent {
		made.modes = []CommitMode{CommitIdempotent, CommitHost}
	}
	made.commitEvery = s.CommitEvery
	made.newSink = func(config any) (transactional, func() error) {
		one := s.New()
		return newSimpleSink(one, s.StagingBytes), func() error { return one.Init(config.(C)) }
	}
	return made
}

func (s TransactionalSpec[C]) kind() *kind {
	made := newKind(s.Name, s.Title, s.Description, s.Aliases, s.Validate, s.Check, s.AlterOffsets)
	made.hints = s.KeyHints
	made.apply = appliesOf(s.Apply)
	made.modes = s.Modes
	if len(made.modes) == 0 {
		made.modes = []CommitMode{CommitTwoPhase}
	}
	made.commitEvery = s.CommitEvery
	made.newSink = func(config any) (transactional, func() error) {
		one := s.New()
		return one, func() error { return one.Init(config.(C)) }
	}
	return made
}
