package body_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
)

const megabyte = 1 << 20

func compress(tb testing.TB, data []byte, writer func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := writer(&b)
	_, err := w.Write(data)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return b.Bytes()
}

func gzipped(tb testing.TB, data []byte) []byte {
	return compress(tb, data, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func TestInflate(t *testing.T) {
	plain := []byte(`{"id":"evt_1","amount":100}`)

	t.Run("case 42: gzip and deflate give the signed bytes", func(t *testing.T) {
		deflated := compress(t, plain, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
		for encoding, data := range map[string][]byte{
			"gzip": gzipped(t, plain), " GZip ": gzipped(t, plain), "x-gzip": gzipped(t, plain), "deflate": deflated, "": plain, "identity": plain,
		} {
			got, err := body.Inflate(encoding, data, megabyte)
			require.NoError(t, err, encoding)
			require.Equal(t, string(plain), string(got))
		}
	})

	t.Run("case 42: a bomb stops at the limit, and holds no more", func(t *testing.T) {
		bomb := compress(t, make([]byte, 32*megabyte), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := body.Inflate("gzip", bomb, megabyte)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, body.ErrLimit)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*megabyte))
	})

	t.Run("the ratio holds below the limit", func(t *testing.T) {
		small := gzipped(t, make([]byte, 8*megabyte)) // some 8 KB
		_, err := body.Inflate("gzip", small, 64*megabyte)
		require.ErrorIs(t, err, body.ErrLimit)
		_, err = body.Inflate("gzip", gzipped(t, make([]byte, 64<<10)), 64*megabyte)
		require.NoError(t, err, "short bodies may grow")
	})

	t.Run("the limit is exact", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		data := make([]byte, 100_000)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		got, err := body.Inflate("gzip", gzipped(t, data), 100_000)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
		_, err = body.Inflate("gzip", gzipped(t, data), 99_999)
		require.ErrorIs(t, err, body.ErrLimit)
	})

	t.Run("a batch of like events is no bomb", func(t *testing.T) {
		batch := "[" + strings.Repeat(`{"id":"EV00BD05S5VM2T","created_at":"2018-07-05T09:13:51.404Z","resource_type":"payments","action":"created"},`, 400)
		_, err := body.Inflate("gzip", gzipped(t, []byte(batch)), megabyte)
		require.NoError(t, err)
	})

	t.Run("other encodings are not read", func(t *testing.T) {
		for _, encoding := range []string{"br", "zstd", "compress", "gzip, gzip", "gzip,deflate", "*"} {
			_, err := body.Inflate(encoding, plain, megabyte)
			require.ErrorIs(t, err, body.ErrUnsupported, encoding)
		}
	})

	t.Run("what is not what it says is refused", func(t *testing.T) {
		whole := gzipped(t, plain)
		raw := compress(t, plain, func(w io.Writer) io.WriteCloser {
			f, err := flate.NewWriter(w, 6)
			require.NoError(t, err)
			return f
		})
		zipped := compress(t, plain, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
		flipped := bytes.Clone(whole)
		flipped[len(flipped)-5] ^= 1 // its checksum
		for name, try := range map[string]struct {
			encoding string
			data     []byte
		}{
			"plain bytes":        {"gzip", plain},
			"nothing":            {"gzip", nil},
			"cut short":          {"gzip", whole[:len(whole)-1]},
			"checksum":           {"gzip", flipped},
			"more after":         {"gzip", append(bytes.Clone(whole), 'x')},
			"more after deflate": {"deflate", append(bytes.Clone(zipped), 'x')},
			"raw deflate":        {"deflate", raw},
			"gzip as deflate":    {"deflate", whole},
		} {
			_, err := body.Inflate(try.encoding, try.data, megabyte)
			require.ErrorIs(t, err, body.ErrSyntax, name)
		}
	})
}
