package breakage

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each breakage still fits the product, and is a program.
func TestEachBreakageBuilds(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, b := range All {
		t.Run(b.Name, func(t *testing.T) {
			overlay, err := b.Overlay(root, t.TempDir())
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", t.TempDir()+"/", "./cmd/receiver", "./cmd/worker")
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

func TestBreakageThatDoesNotFit(t *testing.T) {
	b := Breakage{Name: "x", Edits: []Edit{{loop, "no such text", "y"}}}
	_, err := b.Overlay("../../..", t.TempDir())
	require.ErrorContains(t, err, "0 times")
}
