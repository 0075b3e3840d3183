import java.io.File;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.SslContext;
import org.apache.activemq.security.AuthenticationUser;
import org.apache.activemq.security.SimpleAuthenticationPlugin;

/** ActiveMQ Classic: folder, port of STOMP, port of STOMP with TLS, of OpenWire, user, password, keys. */
public class Classic {
    public static void main(String[] given) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setDataDirectory(given[0]);
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        AuthenticationUser user = new AuthenticationUser(given[4], given[5], "users");
        broker.setPlugins(new BrokerPlugin[] {new SimpleAuthenticationPlugin(List.of(user))});
        char[] secret = "certificates".toCharArray();
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(new FileInputStream(new File(given[6])), secret);
        KeyManagerFactory managers = KeyManagerFactory.getInstance("SunX509");
        managers.init(keys, secret);
        broker.setSslContext(new SslContext(managers.getKeyManagers(), null, null));
        broker.getSystemUsage().getMemoryUsage().setLimit(64L << 20);
        broker.getSystemUsage().getStoreUsage().setLimit(256L << 20);
        broker.getSystemUsage().setSendFailIfNoSpace(true);
        broker.addConnector("stomp://127.0.0.1:" + given[1]);
        broker.addConnector("stomp+ssl://127.0.0.1:" + given[2]);
        broker.addConnector("tcp://127.0.0.1:" + given[3]);
        broker.start();
        broker.waitUntilStopped();
    }
}
