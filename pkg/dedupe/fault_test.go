package dedupe

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// answers are those of a pipeline, one for each error.
func answers(t *testing.T, errs ...error) []redis.Cmder {
	cmds := make([]redis.Cmder, len(errs))
	for i, err := range errs {
		cmds[i] = redis.NewStatusCmd(t.Context())
		cmds[i].SetErr(err)
	}
	return cmds
}

// A Redis that runs full, or is lost, in the midst of a batch has answered its
// first keys well.
func TestAFaultIsFoundAnywhereInAPipeline(t *testing.T) {
	t.Parallel()
	full := errors.New("OOM command not allowed when used memory > 'maxmemory'")
	require.Equal(t, full, faultOf(answers(t, redis.Nil, nil, full, redis.Nil)))
	require.NoError(t, faultOf(answers(t, redis.Nil, nil, redis.Nil)))
	require.NoError(t, faultOf(nil))
}
