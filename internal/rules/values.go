package rules

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// Types that CEL does not have.
var (
	decimalType    = cel.OpaqueType("decimal")
	unstorableType = cel.OpaqueType("unstorable")
	operationType  = cel.OpaqueType("operation")
)

// adapter shows the values of jsondoc to CEL.
type adapter struct{}

// NativeToValue returns v as a value of CEL.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case map[string]string:
		return types.NewStringStringMap(a, v)
	case *eventTexts:
		return types.NewStringStringMap(a, v.texts())
	case jsondoc.Number:
		return decimal(v)
	case jsondoc.Unstorable:
		return unstorable(v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// decimal is a JSON number that is no int64.
type decimal jsondoc.Number

// ConvertToNative is an error: nothing needs it.
func (d decimal) ConvertToNative(t reflect.Type) (any, error) { return noNative(d, t) }

// ConvertToType gives the text as it was written; no other type holds the value exactly.
func (d decimal) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.StringType:
		return types.String(d)
	case types.TypeType:
		return decimalType
	}
	return types.NewErr("a decimal does not convert to %s; use minor() or major()", t.TypeName())
}

// Equal compares by exact value.
func (d decimal) Equal(other ref.Val) ref.Val { return equal(d, other) }

// Type returns the type CEL knows it by.
func (d decimal) Type() ref.Type { return decimalType }

// Value returns the value without CEL.
func (d decimal) Value() any { return jsondoc.Number(d) }

// integer returns the digits of an integer that is too long for an int.
func (d decimal) integer() (digits string, ok bool) {
	for i := range len(d) {
		if (d[i] < '0' || d[i] > '9') && (d[i] != '-' || i > 0) {
			return "", false
		}
	}
	return string(d), true
}

// unstorable is a string that no rule may use, since it cannot be stored.
type unstorable jsondoc.Unstorable

// ConvertToNative is an error: nothing needs it.
func (u unstorable) ConvertToNative(t reflect.Type) (any, error) { return noNative(u, t) }

// ConvertToType is a refusal, as is every use.
func (u unstorable) ConvertToType(ref.Type) ref.Val { return u.refusal().value() }

// Equal is a refusal, as is every use.
func (u unstorable) Equal(ref.Val) ref.Val { return u.refusal().value() }

// Type returns the type CEL knows it by.
func (u unstorable) Type() ref.Type { return unstorableType }

// Value returns the value without CEL.
func (u unstorable) Value() any { return jsondoc.Unstorable(u) }

func (u unstorable) refusal() *refusal {
	return refuse(dlq.UnstorableText, "%q holds a NUL, half a surrogate pair or invalid UTF-8", clip(string(u)))
}

// operation is what op() returns: the kind and the parts of a money key.
type operation []string

// ConvertToNative is an error: nothing needs it.
func (o operation) ConvertToNative(t reflect.Type) (any, error) { return noNative(o, t) }

// ConvertToType is an error: an operation is no text.
func (o operation) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("an operation does not convert to %s", t.TypeName())
}

// Equal compares all parts.
func (o operation) Equal(other ref.Val) ref.Val {
	p, ok := other.(operation)
	return types.Bool(ok && reflect.DeepEqual(o, p))
}

// Type returns the type CEL knows it by.
func (o operation) Type() ref.Type { return operationType }

// Value returns the value without CEL.
func (o operation) Value() any { return []string(o) }

func noNative(v ref.Val, t reflect.Type) (any, error) {
	return nil, fmt.Errorf("convert %s to %v: not supported", v.Type().TypeName(), t)
}

// number returns v as a number of any kind; a double as the shortest decimal
// that is read as the same double, which is how the rule wrote it.
func number(v ref.Val) (jsondoc.Number, bool) {
	switch v := v.(type) {
	case decimal:
		return jsondoc.Number(v), true
	case types.Int:
		return jsondoc.Number(strconv.FormatInt(int64(v), 10)), true
	case types.Uint:
		return jsondoc.Number(strconv.FormatUint(uint64(v), 10)), true
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return jsondoc.Number(strconv.FormatFloat(f, 'e', -1, 64)), true
		}
	}
	return "", false
}

// clip shortens text for an error message.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most]
	}
	return text
}
