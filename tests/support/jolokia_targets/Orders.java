import java.lang.management.ManagementFactory;
import java.math.BigInteger;
import java.util.Map;
import java.util.TreeMap;
import javax.management.ObjectName;
import javax.management.StandardMBean;

/** A JVM that registers an MBean for each line that it reads, until there are no more. */
public class Orders {
    public interface Shop {
        int getCount();
        double getRate();
        double getLimit();
        boolean isOpen();
        String getTitle();
        long getLarge();
        BigInteger getHuge();
        int[] getSizes();
        Map<String, Long> getStock();
        int getBroken();
    }

    static class Of implements Shop {
        public int getCount() { return 12; }
        public double getRate() { return Double.NaN; }
        public double getLimit() { return Double.POSITIVE_INFINITY; }
        public boolean isOpen() { return true; }
        public String getTitle() { return "a shop"; }
        public long getLarge() { return 1L << 52; }
        public BigInteger getHuge() { return BigInteger.TEN.pow(400); }
        public int[] getSizes() { return new int[] {1, 2}; }
        public Map<String, Long> getStock() { return new TreeMap<>(Map.of("red apples", 3L, "pears", 4L)); }
        public int getBroken() { throw new IllegalStateException("no lorry"); }
    }

    public static void main(String[] arguments) throws Exception {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String name; (name = lines.readLine()) != null;) {
            var bean = new StandardMBean(new Of(), Shop.class);
            ManagementFactory.getPlatformMBeanServer().registerMBean(bean, new ObjectName(name));
            System.out.println("registered " + name);
        }
    }
}
