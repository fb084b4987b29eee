package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// elsewhere holds Postgres's data where its user cannot reach the data folder.
const elsewhere = "/var/lib/onceledger"

// postgres is one cluster's programs, data and user.
type postgres struct {
	bin     string
	data    string
	account *account
}

// cluster finds the data and the programs that fit it, and makes the data
// where there is none yet.
func (s *Stack) cluster(ctx context.Context) (postgres, error) {
	account, err := unprivileged()
	if err != nil {
		return postgres{}, err
	}
	pg := postgres{account: account, data: cmp.Or(s.state.PostgresDir, filepath.Join(s.dir, "postgres"))}
	version, err := os.ReadFile(filepath.Join(pg.data, "PG_VERSION"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return postgres{}, fmt.Errorf("read postgres version: %w", err)
	}
	if pg.bin, err = findPostgres(strings.TrimSpace(string(version))); err != nil {
		return postgres{}, err
	}
	if len(version) == 0 {
		if err := s.initCluster(ctx, pg); err != nil {
			return postgres{}, fmt.Errorf("make postgres data: %w", err)
		}
	}
	return pg, nil
}

// placePostgres settles where the data lives: in the data folder, or where
// Postgres's user cannot get there, elsewhere under a name of its own.
func (s *Stack) placePostgres() error {
	if s.state.PostgresDir != "" {
		return nil
	}
	account, err := unprivileged()
	if err != nil {
		return err
	}
	if ok, err := account.reaches(s.dir); ok || err != nil {
		return err
	}
	if err := os.MkdirAll(elsewhere, 0o755); err != nil { // Postgres's user must pass through
		return err
	}
	parent, err := os.MkdirTemp(elsewhere, "stack-")
	if err != nil {
		return err
	}
	s.state.PostgresDir = filepath.Join(parent, "postgres")
	s.options.Log.Info().Str("dir", s.state.PostgresDir).Msg("postgres data is kept elsewhere, as its user cannot reach the data folder")
	return os.Chmod(parent, 0o755) //nolint:gosec // as above; the data itself is 0700
}

// initCluster makes the data beside its place and moves it there when complete,
// so that a run killed half-way leaves nothing that looks finished.
func (s *Stack) initCluster(ctx context.Context, pg postgres) error {
	next := pg.data + ".new"
	password := pg.data + ".password"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := os.Mkdir(next, 0o700); err != nil {
		return err
	}
	defer func() { _ = removeIfThere(password) }()
	if err := os.WriteFile(password, []byte(s.state.Password+"\n"), 0o600); err != nil {
		return err
	}
	if err := errors.Join(pg.account.own(next), pg.account.own(password)); err != nil {
		return err
	}

	args := []string{
		"--pgdata=" + next, "--username=" + userName, "--pwfile=" + password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
	}
	if s.temporary {
		args = append(args, "--no-sync")
	}
	if out, err := pg.run(ctx, "initdb", args...); err != nil {
		return fmt.Errorf("run initdb: %w\n%s", err, out)
	}
	return os.Rename(next, pg.data)
}

// run runs one of the cluster's programs as its user and returns what it printed.
func (pg postgres) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(pg.bin, program), args...)
	cmd.Env, cmd.Dir = pg.env(), "/"
	if pg.account != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pg.account.credential()}
	}
	return cmd.CombinedOutput()
}

// env keeps the caller's PG… variables and locale away from the server.
func (pg postgres) env() []string {
	return []string{"PATH=" + pg.bin + ":/usr/bin:/bin", "LC_ALL=C"}
}

// findPostgres returns the folder of the newest installed Postgres, or of the
// given major version where data of that version exists.
func findPostgres(version string) (string, error) {
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/usr/pgsql-*/bin",
	} {
		dirs, _ := filepath.Glob(pattern) // the patterns are constants
		found = append(found, dirs...)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // its folder may tell the version
			found = append(found, filepath.Dir(path))
		}
	}
	found = slices.DeleteFunc(found, func(dir string) bool {
		v := majorOf(dir)
		return !isFile(filepath.Join(dir, "initdb")) || !isFile(filepath.Join(dir, "postgres")) ||
			version != "" && v != 0 && strconv.Itoa(v) != version
	})
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return majorOf(a) - majorOf(b) }), nil
	}
	return "", fmt.Errorf("%w: postgres %s(Debian: apt-get install postgresql; macOS: brew install postgresql@17), or set DATABASE_URL",
		ErrMissing, strings.TrimLeft(version+" ", " "))
}

// majorOf reads the version out of a path such as /usr/lib/postgresql/15/bin;
// 0 where it has none.
func majorOf(bin string) int {
	name := filepath.Base(filepath.Dir(bin))
	major, _, _ := strings.Cut(name[strings.LastIndexAny(name, "@-")+1:], ".")
	n, _ := strconv.Atoi(major)
	return n
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
