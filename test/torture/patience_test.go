package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPatience(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPatience(time.Minute, now)
	for backlog := uint64(10); backlog > 0; backlog-- { // it shrinks, slowly
		now = now.Add(50 * time.Second)
		require.False(t, p.over(now, backlog))
	}
	require.False(t, p.over(now, 0))
	require.False(t, p.over(now.Add(59*time.Second), 0))
	require.True(t, p.over(now.Add(time.Minute), 0), "nothing is left to deliver, and something waits for ever")
	require.True(t, p.over(now.Add(time.Minute), 5), "growing is no progress")
}
