package rota.benches;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/** Parts of a broker that heartbeats have no use for. */
final class Unasked {
    /** It may be told something, and must not be asked for anything. */
    static <T> T as(Class<T> part) {
        return part.cast(Proxy.newProxyInstance(part.getClassLoader(), new Class<?>[] {part}, Unasked::answer));
    }

    private static Object answer(Object part, Method method, Object[] arguments) {
        if (method.getReturnType() == void.class) {
            return null;
        }
        throw new IllegalStateException("heartbeats asked for " + method);
    }

    private Unasked() {
    }
}
