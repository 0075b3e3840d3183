package connector

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	connectorv1 "penstock/go/api/connector/v1"
)

type reaching struct {
	File  string
	Host  string
	Reach Reach
}

func (r reaching) RequireReach() error {
	if err := r.Reach.RequirePath(r.File, "file"); err != nil {
		return err
	}
	return r.Reach.RequireHost(r.Host, "host")
}

type careless struct{ Reach Reach }

func kindReaching() *kind { return SinkSpec[reaching]{Name: "reaching"}.kind() }

func codeOf(err error) string {
	if failure, known := err.(*Error); known && failure != nil {
		return failure.Code
	}
	return ""
}

func readWith(folders, hosts, file, host string) (reaching, string) {
	config, errs := kindReaching().read(map[string]string{
		"reach.folders": folders, "reach.hosts": hosts, "file": file, "host": host,
	})
	return config.(reaching), codeOf(firstOf(errs))
}

func TestAConnectorSaysThatItKeepsToWhatItMayReach(t *testing.T) {
	if !kindReaching().spec().EnforcesReach {
		t.Error("it does not say so")
	}
	if (SinkSpec[slotConfig]{Name: "slots"}).kind().spec().EnforcesReach {
		t.Error("one without Reach says so")
	}
	if len(kindReaching().keys) != 2 {
		t.Error("Reach is a key")
	}
}

func TestAConfigurationThatNeverComparesIsADefect(t *testing.T) {
	_, err := newConnectors([]Connector{SinkSpec[careless]{Name: "careless"}})
	if codeOf(err) != "config.reach_not_compared" {
		t.Error(err)
	}
}

func TestWhatANodeLetsAConnectorReachIsCompared(t *testing.T) {
	for _, one := range []struct{ folders, hosts, file, host, code string }{
		{"/data", "db.example", "/data/a", "db.example", ""},
		{"/data", "db.example", "/etc/shadow", "db.example", "reach.folder"},
		{"/data", "db.example", "/data/a", "other.example", "reach.host"},
		{"*", "*", "/etc/shadow", "any", ""},
		{"", "*", "/data/a", "any", "reach.folder"},
		{"s3://b/a", "*", "/b/a", "any", "reach.folder"},
	} {
		if _, code := readWith(one.folders, one.hosts, one.file, one.host); code != one.code {
			t.Errorf("%v: %s", one, code)
		}
	}
}

func TestWithoutAWordAnythingMayBeReached(t *testing.T) {
	config, errs := kindReaching().read(map[string]string{"file": "/etc/shadow", "host": "any"})
	if len(errs) > 0 || config.(reaching).Reach.RequirePath("/any", "") != nil {
		t.Error(errs)
	}
}

func TestKeysOfTheHostAreNoValuesOfTheConfiguration(t *testing.T) {
	all, err := newConnectors([]Connector{SinkSpec[reaching]{Name: "reaching"}})
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]string{"reach.folders": "/data", "reach.hosts": "*", "file": "/data/a"}
	answer, err := (&control{connectors: all}).ValidateConfig(context.Background(),
		&connectorv1.ValidateConfigRequest{Target: &connectorv1.Target{Connector: "reaching", Config: config}})
	if err != nil || len(answer.Values) != 2 || len(answer.Diagnostics) > 0 {
		t.Error(answer, err)
	}
}

func TestAPathIsInsideOnceItsLinksAreFollowed(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"in", "inside", "out"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"in/link": "out", "to_in": "in"} {
		if err := os.Symlink(filepath.Join(root, target), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("loop", filepath.Join(root, "in/loop")); err != nil {
		t.Fatal(err)
	}
	reach := reachOf(map[string]string{"reach.folders": root + "/to_in"})
	for path, code := range map[string]string{
		"in": "", "in/x": "", "to_in/x": "", "in/link/../in/x": "", "out/../in/x": "",
		"in/link/x": "reach.folder", "in/../out/x": "reach.folder", "inside/x": "reach.folder",
		"in/missing/../../out": "reach.folder", "in/loop/x": "reach.folder",
	} {
		if found := codeOf(reach.RequirePath(root+"/"+path, "")); found != code {
			t.Errorf("%s: %q", path, found)
		}
	}
	if codeOf(reachOf(map[string]string{"reach.folders": "/"}).RequirePath("/proc/self/environ", "")) == "" {
		t.Error("what leads through processes is inside")
	}
}

func TestWhatIsOpenedCountsAndNotItsName(t *testing.T) {
	root := t.TempDir()
	opened, err := os.Create(filepath.Join(root, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := reachOf(map[string]string{"reach.folders": root}).RequireOpened(opened, ""); err != nil {
		t.Error(err)
	}
	elsewhere := reachOf(map[string]string{"reach.folders": root + "/other"})
	if codeOf(elsewhere.RequireOpened(opened, "")) != "reach.folder" {
		t.Error("it is inside")
	}
}

func TestAHostIsComparedByItsNameOrAsAnAddress(t *testing.T) {
	for _, one := range []struct {
		allowed, host string
		inside        bool
	}{
		{"db.example", "DB.example", true}, {"db.example", "db.example.", true},
		{"db.example", "xdb.example", false}, {"*.a.example", "x.y.a.example", true},
		{"*.a.example", "a.example", false}, {"*.a.example", "xa.example", false},
		{"10.1.0.0/16", "10.1.2.3", true}, {"10.1.0.0/16", "10.2.2.3", false},
		{"10.1.2.3", "10.1.2.3", true}, {"10.1.0.0/16", "db.example", false},
		{"db.example", "10.1.2.3", false}, {"fd00::/8", "[fd00::1]", true},
		{"::1", "0:0:0:0:0:0:0:1", true}, {"10.1.0.0/16", "fd00::1", false},
	} {
		reach := reachOf(map[string]string{"reach.hosts": "first, " + one.allowed})
		if found := codeOf(reach.RequireHost(one.host, "")); (found == "") != one.inside {
			t.Errorf("%v: %q", one, found)
		}
	}
}
