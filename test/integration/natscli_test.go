package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// natsCommand finds the ordinary nats command: the Makefile puts it into .bin.
func natsCommand(t *testing.T) string {
	t.Helper()
	own, err := filepath.Abs("../../.bin/nats")
	require.NoError(t, err)
	if _, err := os.Stat(own); err == nil {
		return own
	}
	found, err := exec.LookPath("nats")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("the nats command is missing; run: make tools")
	}
	require.NoError(t, err)
	return found
}

func TestNATSCommandShowsAnEventReadably(t *testing.T) {
	t.Parallel()
	nats := natsCommand(t)
	s := newSystem(t, base)
	event := charge("evt_1 日本", "cus_1", 1250)
	s.ack(s.receiver(), event)

	cmd := exec.CommandContext(t.Context(), nats, "--server", s.NATSURL, "stream", "get", "EVENTS", "1")
	cmd.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, text := range []string{
		"EVENTS#1", "events.stripe.charge.succeeded",
		"ce-id: evt_1%20%E6%97%A5%E6%9C%AC", "ce-source: stripe", "ce-type: charge.succeeded", "ce-specversion: 1.0",
		"ce-time: 2023-11-14T22:13:20Z", "ce-mode: live", "content-type: application/json",
		event.body,
	} {
		require.Contains(t, string(out), text)
	}
}
