package body_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
)

func TestBase64(t *testing.T) {
	for name, c := range map[string]struct {
		spelling body.Base64
		text     string
		bytes    string
	}{
		"std":    {body.Base64Std, "+/8=", "\xfb\xff"},
		"raw":    {body.Base64Raw, "+/8", "\xfb\xff"},
		"url":    {body.Base64URL, "-_8=", "\xfb\xff"},
		"rawurl": {body.Base64RawURL, "-_8", "\xfb\xff"},
		"lines":  {body.Base64Lines, "+/\r\n8=\n", "\xfb\xff"},
		"empty":  {body.Base64Std, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.spelling.Decode([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, c.bytes, string(got))
		})
	}
	for name, c := range map[string]struct {
		spelling body.Base64
		text     string
	}{
		"no padding":          {body.Base64Std, "+/8"},
		"padding":             {body.Base64Raw, "+/8="},
		"the other alphabet":  {body.Base64Std, "-_8="},
		"the other alphabet ": {body.Base64RawURL, "+/8"},
		"bits left over":      {body.Base64Std, "+/9="},
		"a line break":        {body.Base64Std, "+/8=\n"},
		"a line break within": {body.Base64RawURL, "-\r_8"},
		"a space":             {body.Base64Lines, "+/ 8="},
		"more":                {body.Base64Std, "+/8=+/8="},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			_, err := c.spelling.Decode([]byte(c.text))
			require.ErrorIs(t, err, body.ErrSyntax)
		})
	}
}
