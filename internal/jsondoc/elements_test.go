package jsondoc_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

func TestElements(t *testing.T) {
	texts := func(elements [][]byte) (list []string) {
		for _, element := range elements {
			list = append(list, string(element))
		}
		return list
	}
	for _, c := range []struct {
		data string
		path []string
		want []string
	}{
		{`[]`, nil, nil},
		{" [ 1 ,\"a]\\\"\" , [2,[]],{\"b\" : {}} ]\n", nil, []string{"1", `"a]\""`, "[2,[]]", `{"b" : {}}`}},
		{`{"x":[0],"a":{"b":[null,true]},"y":{"b":[1]}}`, []string{"a", "b"}, []string{"null", "true"}},
		{`{"a":{"b":[1],"c":1},"b":2,"c":{"b":1}}`, []string{"a", "b"}, []string{"1"}},
		{`{"\u0061":[1]}`, []string{"a"}, []string{"1"}},
		{`[{"a":1,"a":2}]`, nil, []string{`{"a":1,"a":2}`}},
	} {
		elements, err := jsondoc.Elements([]byte(c.data), 10, c.path...)
		require.NoError(t, err, c.data)
		require.Equal(t, c.want, texts(elements))
	}

	t.Run("an element cannot grow into the next", func(t *testing.T) {
		data := []byte(`[1,2]`)
		elements, err := jsondoc.Elements(data, 10)
		require.NoError(t, err)
		_ = append(elements[0], '9')
		require.Equal(t, `[1,2]`, string(data))
	})

	t.Run("a name that is repeated outside the elements is ambiguous, also after them", func(t *testing.T) {
		for _, data := range []string{`{"a":[1],"a":[2]}`, `{"b":1,"a":[],"b":2}`, `{"a":[{"x":1,"x":2}],"c":{"d":1,"d":1}}`, `{"c":{"d":1,"d":1},"a":[]}`} {
			_, err := jsondoc.Elements([]byte(data), 10, "a")
			require.ErrorIs(t, err, jsondoc.ErrAmbiguous, data)
		}
	})

	t.Run("many names on the way", func(t *testing.T) {
		data := []byte(`{`)
		for i := range 200 {
			data = append(data, `"n`...)
			data = append(data, byte('a'+i%26), byte('a'+i/26))
			data = append(data, `":[{"a":1,"a":1}],`...)
		}
		_, err := jsondoc.Elements(append(data, `"x":[1]}`...), 10, "x")
		require.ErrorIs(t, err, jsondoc.ErrAmbiguous)
	})

	t.Run("names of one object do not count in another", func(t *testing.T) {
		var names string
		for i := range 40 {
			names += fmt.Sprintf(`,"n%d":0`, i)
		}
		elements, err := jsondoc.Elements([]byte(`{"a":{"b":[1]`+names+`}`+names+`}`), 10, "a", "b")
		require.NoError(t, err)
		require.Len(t, elements, 1)
	})

	t.Run("no more than are asked for", func(t *testing.T) {
		_, err := jsondoc.Elements([]byte(`[1,2,3]`), 2)
		require.ErrorIs(t, err, jsondoc.ErrMany)
		elements, err := jsondoc.Elements([]byte(`[1,2]`), 2)
		require.NoError(t, err)
		require.Len(t, elements, 2)
	})

	t.Run("no array there", func(t *testing.T) {
		for data, path := range map[string][]string{`{}`: {"a"}, `{"a":1}`: {"a"}, `{"a":[]}`: {"a", "b"}, `1`: nil, `{"a":null}`: {"a"}, `{"a":[1]}`: nil} {
			_, err := jsondoc.Elements([]byte(data), 10, path...)
			require.ErrorIs(t, err, jsondoc.ErrNoArray, data)
		}
	})

	t.Run("a scan after it compares names again", func(t *testing.T) {
		_, err := jsondoc.Elements([]byte(`[{"a":`), 10)
		require.ErrorIs(t, err, jsondoc.ErrSyntax)
		_, err = jsondoc.Scan([]byte(`{"a":1,"a":2}`), nil)
		require.ErrorIs(t, err, jsondoc.ErrAmbiguous)
	})
}
